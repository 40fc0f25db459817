"""PostgreSQL as engine.

engine.py   the engine
sql.py      all of its SQL
schema.py   makes its tables
primary.py  finds the primary, and checks what it promises
link.py     a connection that is made again after it was lost
"""
