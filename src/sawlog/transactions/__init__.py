"""The transaction coordinator: the transactional ids of one partition of `__transaction_state`.

Pure: it plans records and asks for markers; `broker/` appends the former and writes the latter.
"""
