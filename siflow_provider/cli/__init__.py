"""The siflow-provider command; works without loading Airflow."""
