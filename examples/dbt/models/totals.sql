{{ config(materialized='incremental', incremental_strategy='merge', unique_key='customer') }}

select customer, cast(sum(amount) as bigint) as amount, count(*) as orders
from {{ ref('orders') }}
group by customer
