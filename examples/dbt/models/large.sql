{{ config(materialized='view') }}

select customer from {{ ref('totals') }} where amount > 25
