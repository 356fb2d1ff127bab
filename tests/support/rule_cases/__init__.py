"""Golden cases of the rules, as descriptions: write_rule_cases.py makes files of them."""
