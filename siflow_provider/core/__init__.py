"""The contract of backends and the one loop that follows a run. Knows no backend and no Airflow."""
