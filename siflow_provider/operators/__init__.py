"""Operators: training jobs as Airflow tasks."""
