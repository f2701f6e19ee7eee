"""Being a member of a group: two protocols as pure machines, and the thread that speaks for one."""
