"""Arrow tables: their columns, from and to the core, judged and added up. No Spark."""
