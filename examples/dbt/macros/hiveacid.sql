{# Makes dbt-spark create transactional ORC tables of hiveacid. #}

{% macro spark__file_format_clause() %}
    stored as orc
{% endmacro %}

{% macro spark__tblproperties_clause() %}
    tblproperties ('transactional' = 'true')
{% endmacro %}

{# hiveacid has no `create or replace table`: dbt drops the table and creates it again. #}
{% macro spark__create_table_as(temporary, relation, compiled_code, language='sql') %}
    {%- if temporary -%}
        {{ create_temporary_view(relation, compiled_code) }}
    {%- else -%}
        create table {{ relation }} {{ file_format_clause() }} {{ tblproperties_clause() }} as {{ compiled_code }}
    {%- endif -%}
{% endmacro %}

{# dbt finds the type of a relation by the words `Type: VIEW` and `Provider: delta`. #}
{% macro spark__list_relations_without_caching(relation) %}
    {%- set tables = run_query('show tables in ' ~ relation.schema) -%}
    {%- set views = run_query('show views in ' ~ relation.schema).columns[1].values() -%}
    {%- call statement('relations', fetch_result=True) -%}
        select * from values
        {% for row in tables %}
            ('{{ row[0] }}', '{{ row[1] }}', false, '{{ 'Type: VIEW' if row[1] in views else 'Provider: delta' }}'),
        {% endfor %}
            ('', '', false, '') as relations(namespace, tableName, isTemporary, information)
        where tableName <> ''
    {%- endcall -%}
    {% do return(load_result('relations').table) %}
{% endmacro %}
