"""Broker settings that can be changed while the broker runs, and the settings in force.

The dynamic settings of one broker take precedence over those of all brokers, these over the static
settings that the broker was started with, and these over the defaults (KIP-226). Kafka 4.3 decides
which settings are dynamic; one that Sawlog does not act on is accepted and reported as having no
effect.
"""

import re
from collections.abc import Callable, Iterable, Mapping

from sawlog.core.config import ALL_BROKER_SETTINGS, BrokerConfig
from sawlog.core.config_broker import BROKER_SETTINGS, check_cleaner
from sawlog.core.config_dynamic_names import (
    DYNAMIC_SETTINGS,
    EFFECTIVE_QUOTA_SETTINGS,
    LISTENER_OR_CLUSTER_SETTINGS,
    LISTENER_PREFIX_SETTINGS,
    PER_BROKER_SETTINGS,
    QUOTA_SETTINGS,
    THREAD_COUNTS,
)
from sawlog.core.config_groups import check_broker_limits
from sawlog.core.config_topic import BROKER_SYNONYMS
from sawlog.core.config_values import (
    ConfigError,
    ConfigType,
    Setting,
    Value,
    format_value,
    parse_value,
)
from sawlog.core.config_warnings import notices, reject_security_setting
from sawlog.core.event_logger import EventLogger

logger = EventLogger(__name__)

CLUSTER_WIDE = "min.insync.replicas"
"""Kafka 4.3 keeps this one for the whole cluster, because elections depend on it (KIP-966)."""

_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)")
Texts = Mapping[str, str]


def setting_of(name: str) -> Setting | None:
    """Return the setting with this name, perhaps behind the prefix of a listener."""
    match = _LISTENER.fullmatch(name)
    base = match[1] if match else name
    return ALL_BROKER_SETTINGS.get(base) or QUOTA_SETTINGS.get(base)


def is_dynamic(name: str) -> bool:
    return name in DYNAMIC_SETTINGS or name in QUOTA_SETTINGS


class DynamicBrokerConfig(BrokerConfig):
    """The settings in force: the one object that the parts of a broker read.

    `given` has the static texts, `of_brokers` the dynamic ones of all brokers and `of_broker` those
    of this broker. Only `reconfigure` changes them, and raises `version`. A part that keeps a
    value, or has to act on a change, subscribes to it.
    """

    __slots__ = ("_static", "_subscriptions", "of_broker", "of_brokers", "version")

    def __init__(self, static: BrokerConfig) -> None:
        super().__init__(static.given)
        self.notices = static.notices
        self._static: Mapping[str, Value] = self._values
        self._subscriptions: list[tuple[frozenset[str], Callable[[], None]]] = []
        self.of_broker: Texts = {}
        self.of_brokers: Texts = self._with_cluster_wide({})
        self.version = 0

    def subscribe(self, names: Iterable[str], changed: Callable[[], None]) -> None:
        """Call `changed` after every change of one of these settings."""
        self._subscriptions.append((frozenset(names), changed))

    def reconfigure(self, of_brokers: Texts, of_broker: Texts) -> None:
        """Put the stored dynamic settings in force. Invalid ones are logged and ignored."""
        of_brokers = self._with_cluster_wide(self._usable(of_brokers, per_broker=False))
        of_broker = self._usable(of_broker, per_broker=True)
        if of_brokers == self.of_brokers and of_broker == self.of_broker:
            return
        touched = _changed(self.of_brokers, of_brokers) | _changed(self.of_broker, of_broker)
        old = self._values
        self._values = self._values_with(of_brokers, of_broker)
        self.of_brokers, self.of_broker = of_brokers, of_broker
        self.version += 1
        self._report(touched)
        changed = {name for name in touched if self._values.get(name) != old.get(name)}
        changed |= touched & QUOTA_SETTINGS.keys()
        for names, call in self._subscriptions:
            if not names.isdisjoint(changed):
                call()

    def quota(self, name: str) -> int:
        """The value of a setting that is dynamic only."""
        setting = QUOTA_SETTINGS[name]
        text = self.of_broker.get(name, self.of_brokers.get(name, setting.default))
        value = parse_value(setting, text)
        assert isinstance(value, int)
        return value

    def check(self, texts: Texts, *, per_broker: bool) -> None:
        """Raise ConfigError with Kafka's message if these cannot be the dynamic settings of this
        broker, or of all brokers."""
        self._check_each(texts, per_broker=per_broker)
        if per_broker:
            values = self._values_with(self.of_brokers, texts)
        else:
            values = self._values_with(self._with_cluster_wide(texts), self.of_broker)
        check_broker_limits(values)
        check_cleaner(values)
        self._check_thread_counts(values)
        _check_local_retention(values, "ms", _retention_ms(values))
        _check_local_retention(values, "bytes", values["log.retention.bytes"])

    def _check_each(self, texts: Texts, *, per_broker: bool) -> None:
        """Raise ConfigError if one of these is invalid by itself."""
        _check_names(texts, per_broker=per_broker)
        listeners = texts.get("listeners")
        if listeners is not None and listeners != format_value(self._static["listeners"]):
            now = format_value(self._static["listeners"])
            expected = f"it cannot be changed while the broker runs, from {now}"
            raise ConfigError("listeners", listeners, expected)
        cordoned = texts.get("cordoned.log.dirs", "")
        directories = self._static["log.dirs"] or self._static["log.dir"] or ()
        assert isinstance(directories, tuple)
        if missing := {name.strip() for name in cordoned.split(",")} - {"", "*", *directories}:
            message = (
                "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing"
                f" entries: {', '.join(sorted(missing))}"
            )
            raise ConfigError("cordoned.log.dirs", cordoned, "entries of log.dirs", message)

    def _usable(self, texts: Texts, *, per_broker: bool) -> Texts:
        """Return the settings that are valid by themselves: another version, or a broker that was
        started with other static settings, may have stored them."""
        usable: dict[str, str] = {}
        for name, text in texts.items():
            try:
                self._check_each({name: text}, per_broker=per_broker)
                usable[name] = text
            except ConfigError as error:
                logger.error("dynamic setting ignored", setting=name, reason=str(error))
        return usable

    def _check_thread_counts(self, values: Mapping[str, Value]) -> None:
        """A change may at most halve or double a number of threads. The log cleaner keeps one: a
        number that was 0 could never be doubled again."""
        for name in sorted(THREAD_COUNTS):
            old, new = self._values[name], values[name]
            assert isinstance(old, int)
            assert isinstance(new, int)
            expected = ""
            if new < 1:
                expected = "value should be at least 1"
            elif new < old // 2:
                expected = f"value should be at least half the current value {old}"
            elif new > old * 2:
                expected = f"value should not be greater than double the current value {old}"
            if expected and new != old:
                message = (
                    f"Dynamic thread count update validation failed for {name}={new}, {expected}"
                )
                raise ConfigError(name, str(new), expected, message)

    def _with_cluster_wide(self, texts: Texts) -> Texts:
        return {CLUSTER_WIDE: format_value(self._static[CLUSTER_WIDE]), **texts}

    def _values_with(self, of_brokers: Texts, of_broker: Texts) -> dict[str, Value]:
        values = dict(self._static)
        for name, text in {**of_brokers, **of_broker}.items():
            setting = ALL_BROKER_SETTINGS.get(name)
            if setting is not None:
                values[name] = parse_value(setting, text)
        return values

    def _report(self, touched: set[str]) -> None:
        """Log the new dynamic settings, and a warning for each that has no effect."""
        dynamic = {**self.of_brokers, **self.of_broker}
        present = sorted(name for name in touched if name in dynamic)
        for name in sorted(touched):
            setting = setting_of(name)
            is_secret = setting is None or setting.type is ConfigType.PASSWORD
            shown = "<hidden>" if is_secret else dynamic.get(name, "<removed>")
            logger.info("dynamic setting changed", setting=name, value=shown)
        ineffective = {
            name
            for name in present
            if name not in BROKER_SETTINGS and name not in EFFECTIVE_QUOTA_SETTINGS
        }
        for notice in notices(self._values, present, ineffective):
            if notice.setting in touched:
                logger.warning(notice.message, setting=notice.setting)


def _changed(old: Texts, new: Texts) -> set[str]:
    return {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}


def _check_names(texts: Texts, *, per_broker: bool) -> None:
    """Check each setting by itself, in Kafka's order. Unknown names are accepted, as in Kafka."""

    def reject(names: list[str], problem: str) -> None:
        if names:
            message = f"{problem}: [{', '.join(sorted(names))}]"
            raise ConfigError(names[0], None, problem, message)

    reject(
        [name for name in texts if name in ALL_BROKER_SETTINGS and name not in DYNAMIC_SETTINGS],
        "Cannot update these configs dynamically",
    )
    reject(
        [name for name in texts if name in LISTENER_PREFIX_SETTINGS],
        "These security configs can be dynamically updated only per-listener using the listener"
        " prefix",
    )
    for name, text in texts.items():
        setting = setting_of(name)
        if setting is not None:
            parse_value(setting, text)
        reject_security_setting(name, text, setting)
    if not per_broker:
        reject(
            [name for name in texts if name in PER_BROKER_SETTINGS or _is_of_listener(name)],
            "Cannot update these configs at default cluster level, broker id must be specified",
        )


def _is_of_listener(name: str) -> bool:
    """Whether a setting belongs to a listener, of which brokers have different ones."""
    match = _LISTENER.fullmatch(name)
    return match is not None and match[1] not in LISTENER_OR_CLUSTER_SETTINGS


def _retention_ms(values: Mapping[str, Value]) -> Value:
    set_values = ((synonym, values[synonym.name]) for synonym in BROKER_SYNONYMS["retention.ms"])
    return next((s.in_ms(value) for s, value in set_values if isinstance(value, int)), None)


def _check_local_retention(values: Mapping[str, Value], unit: str, whole: Value) -> None:
    """The part of a log that stays on the broker with tiered storage is not more than the whole."""
    name = f"log.local.retention.{unit}"
    local = values[name]
    if not isinstance(local, int) or not isinstance(whole, int) or whole < 0 or local == -2:
        return
    if local == -1 or local > whole:
        expected = f"Value must be at most that of log.retention.{unit}, which is {whole}"
        raise ConfigError(name, str(local), expected)
