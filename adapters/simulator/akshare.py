"""Made-up but well-formed answers of AkShare's upstreams.

Each payload has the field names, nesting, encoding and file format that AkShare reads from the real
host, so its own parser turns the reply into a real frame. `PAYLOADS` finds the payload of a request
by host and path; `FUNCTIONS` names the AkShare functions all of whose requests are served. All
values are invented. Other functions are answered under `/tables/{tool}`.
"""

from collections import defaultdict
from collections.abc import Mapping
from fnmatch import fnmatchcase

import orjson

from adapters.simulator import columns
from adapters.simulator.akshare_boards import BOARD_PAYLOADS
from adapters.simulator.akshare_bonds import BONDS
from adapters.simulator.akshare_company_pages import COMPANY_PAGES
from adapters.simulator.akshare_derivatives import DERIVATIVES
from adapters.simulator.akshare_eastmoney import EASTMONEY
from adapters.simulator.akshare_funds import FUNDS
from adapters.simulator.akshare_macro import MACRO
from adapters.simulator.akshare_quotes import QUOTES
from adapters.simulator.shapes import Payload, Reply, Request, Simulation
from manifests import Catalog

PAYLOADS: Mapping[tuple[str, str], Payload] = {
    **EASTMONEY,
    **COMPANY_PAGES,
    **BONDS,
    **MACRO,
    **QUOTES,
    **DERIVATIVES,
    **FUNDS,
    **BOARD_PAYLOADS,
}

FUNCTIONS: frozenset[str] = frozenset({
    "stock_zh_a_hist", "fund_etf_hist_em", "index_zh_a_hist", "stock_hk_hist", "stock_us_hist",
    "stock_hsgt_fund_min_em", "stock_zt_pool_em", "stock_lhb_detail_em",
    "stock_lhb_stock_detail_date_em", "stock_value_em", "stock_comment_detail_scrd_focus_em",
    "rate_interbank", "futures_inventory_em", "bond_zh_cov_value_analysis", "bond_zh_us_rate",
    "stock_zh_index_hist_csindex", "index_hist_cni", "stock_margin_sse", "stock_margin_szse",
    "bond_cash_summary_sse", "bond_deal_summary_sse", "bond_china_close_return",
    "repo_rate_query", "currency_boc_sina", "futures_zh_daily_sina", "option_sse_list_sina",
    "crypto_bitcoin_cme", "macro_fx_sentiment", "article_epu_index", "index_eri", "index_yw",
    "index_price_cflp", "amac_person_fund_org_list", "bond_cb_jsl", "fx_quote_baidu",
    "stock_info_global_cls", "macro_info_ws", "stock_hot_follow_xq", "stock_hot_tweet_xq",
    "stock_hot_deal_xq", "stock_zh_index_daily_em", "stock_individual_info_em", "stock_bid_ask_em",
    "stock_zh_a_hist_tx", "stock_zh_index_daily_tx", "fund_open_fund_info_em",
    # quotes, funds, futures and options
    "stock_zh_a_daily", "stock_zh_a_cdr_daily", "stock_zh_a_minute", "stock_zh_b_daily",
    "stock_zh_b_minute", "stock_zh_kcb_daily", "stock_hk_daily", "stock_us_daily",
    "fund_etf_category_sina", "fund_etf_hist_sina", "stock_zh_index_daily", "index_us_stock_sina",
    "index_global_hist_sina", "fund_etf_hist_min_em", "fund_lof_hist_em", "fund_lof_hist_min_em",
    "futures_global_hist_em", "index_global_hist_em", "stock_hk_index_daily_em",
    "stock_zh_index_spot_em", "index_zh_a_hist_min_em", "stock_board_concept_cons_em",
    "stock_board_concept_hist_em", "stock_board_concept_hist_min_em",
    "stock_board_concept_spot_em", "stock_board_industry_cons_em", "stock_board_industry_hist_em",
    "stock_board_industry_hist_min_em", "stock_board_industry_spot_em", "stock_hk_hist_min_em",
    "stock_us_hist_min_em", "stock_zh_a_hist_min_em", "stock_zh_a_hist_pre_min_em",
    "stock_intraday_em", "stock_us_famous_spot_em", "futures_main_sina", "futures_zh_minute_sina",
    "futures_zh_realtime", "futures_zh_spot", "futures_foreign_hist", "futures_contract_detail",
    "futures_hold_pos_sina", "futures_foreign_commodity_realtime", "futures_hist_em",
    "rv_from_futures_zh_minute_sina", "option_commodity_contract_sina",
    "option_commodity_contract_table_sina", "option_commodity_hist_sina",
    "option_cffex_hs300_daily_sina", "option_cffex_sz50_daily_sina",
    "option_cffex_zz1000_daily_sina", "option_cffex_hs300_spot_sina",
    "option_cffex_sz50_spot_sina", "option_cffex_zz1000_spot_sina", "option_sse_codes_sina",
    "option_sse_daily_sina", "option_sse_expire_day_sina", "option_sse_greeks_sina",
    "option_sse_minute_sina", "option_sse_spot_price_sina", "option_finance_minute_sina",
    "option_sse_underlying_spot_price_sina", "fund_etf_fund_info_em", "fund_financial_fund_info_em",
    "fund_graded_fund_info_em", "fund_money_fund_info_em", "fund_open_fund_rank_em",
    "fund_info_index_em", "fund_portfolio_hold_em", "fund_portfolio_industry_allocation_em",
    "fund_overview_em", "fund_hk_fund_hist_em", "fund_etf_spot_ths", "fund_scale_open_sina",
    "fund_aum_hist_em", "fund_rating_sh", "fund_rating_zs", "fund_rating_ja",
    "fund_announcement_report_em", "fund_announcement_dividend_em",
    "fund_announcement_personnel_em", "fund_individual_achievement_xq",
    "fund_individual_analysis_xq", "fund_individual_basic_info_xq",
    "fund_individual_detail_hold_xq", "fund_individual_detail_info_xq",
    "fund_individual_profit_probability_xq", "index_stock_cons_csindex",
    "index_stock_cons_weight_csindex", "stock_zh_index_value_csindex", "index_detail_cni",
    "index_detail_hist_cni", "index_detail_hist_adjust_cni", "index_stock_cons",
    "stock_a_code_to_symbol", "index_hist_sw", "index_realtime_sw", "index_component_sw",
    "index_min_sw", "index_analysis_daily_sw", "index_analysis_weekly_sw",
    "index_analysis_monthly_sw", "index_analysis_week_month_sw", "index_realtime_fund_sw",
    "index_hist_fund_sw", "stock_cyq_em", "stock_sector_spot", "stock_sector_detail",
    "stock_classify_sina", "index_stock_cons_sina",
    "stock_intraday_sina", "stock_zh_ah_daily", "stock_zh_a_tick_tx_js", "stock_sse_deal_daily",
    "futures_spot_price", "futures_spot_price_daily", "futures_contract_info_cffex",
    "futures_contract_info_shfe", "futures_contract_info_ine", "futures_index_ccidx",
    "stock_board_industry_index_ths", "stock_board_industry_info_ths", "stock_info_sh_name_code",
    "stock_info_sz_name_code", "stock_individual_spot_xq",
}) | frozenset({
    "bond_china_yield", "bond_composite_index_cbond", "bond_new_composite_index_cbond",
    "bond_treasure_issue_cninfo", "bond_local_government_issue_cninfo", "bond_cov_issue_cninfo",
    "bond_corporate_issue_cninfo", "bond_debt_nafmii", "bond_info_cm", "bond_info_cm_query",
    "bond_info_detail_cm", "bond_cb_adj_logs_jsl", "bond_cb_profile_sina", "bond_cb_summary_sina",
    "bond_zh_hs_spot", "repo_rate_hist", "macro_china_swap_rate", "macro_china_new_house_price",
    "macro_china_nbs_nation", "macro_china_nbs_region", "currency_latest", "currency_history",
    "currency_convert", "currency_currencies", "currency_pair_map", "futures_spot_sys",
    "futures_hog_core", "futures_hog_cost", "futures_hog_supply", "drewry_wci_index",
    "index_kq_fashion", "index_kq_fz", "index_volume_cflp", "bond_buy_back_hist_em",
    "futures_spot_price_previous", "futures_spot_stock", "futures_comex_inventory",
    "futures_stock_shfe_js", "currency_time_series", "amac_fund_info", "bank_fjcf_table_detail",
    "index_bloomberg_billionaires_hist",
}) | frozenset({
    "stock_yjbb_em", "stock_zcfz_em", "stock_zcfz_bj_em", "stock_lrb_em", "stock_xjll_em",
    "stock_yjkb_em", "stock_yjyg_em", "stock_yysj_em", "stock_fhps_em", "stock_fhps_detail_em",
    "stock_financial_analysis_indicator_em", "stock_balance_sheet_by_report_delisted_em",
    "stock_profit_sheet_by_report_delisted_em", "stock_cash_flow_sheet_by_report_delisted_em",
    "stock_zh_a_gbjg_em", "stock_gsrl_gsdt_em", "stock_zh_a_gdhs", "stock_zh_a_gdhs_detail_em",
    "stock_gdfx_free_holding_statistics_em", "stock_gdfx_holding_statistics_em",
    "stock_gdfx_free_holding_change_em", "stock_gdfx_holding_change_em",
    "stock_gdfx_free_holding_detail_em", "stock_gdfx_holding_detail_em",
    "stock_gdfx_free_holding_analyse_em", "stock_gdfx_holding_analyse_em",
    "stock_gdfx_free_holding_teamwork_em", "stock_gdfx_holding_teamwork_em",
    "stock_zh_growth_comparison_em", "stock_zh_dupont_comparison_em",
    "stock_zh_scale_comparison_em", "stock_hk_growth_comparison_em",
    "stock_hk_valuation_comparison_em", "stock_hk_scale_comparison_em",
    "stock_hk_security_profile_em", "stock_hk_company_profile_em",
    "stock_hk_financial_indicator_em", "stock_hk_dividend_payout_em",
    "stock_financial_hk_report_em", "stock_financial_hk_analysis_indicator_em",
    "stock_financial_us_report_em", "stock_financial_us_analysis_indicator_em",
    "stock_balance_sheet_by_report_em", "stock_balance_sheet_by_yearly_em",
    "stock_profit_sheet_by_report_em", "stock_profit_sheet_by_yearly_em",
    "stock_profit_sheet_by_quarterly_em", "stock_cash_flow_sheet_by_report_em",
    "stock_cash_flow_sheet_by_yearly_em", "stock_cash_flow_sheet_by_quarterly_em",
    "stock_gdfx_free_top_10_em", "stock_gdfx_top_10_em", "stock_zygc_em",
    "stock_individual_fund_flow", "stock_news_em", "stock_notice_report",
    "stock_financial_debt_ths", "stock_financial_benefit_ths", "stock_financial_cash_ths",
    "stock_financial_abstract_ths", "stock_financial_debt_new_ths",
    "stock_financial_benefit_new_ths", "stock_financial_cash_new_ths",
    "stock_financial_abstract_new_ths", "stock_zh_valuation_baidu", "stock_hk_valuation_baidu",
    "stock_individual_basic_info_xq", "stock_individual_basic_info_us_xq",
    "stock_individual_basic_info_hk_xq", "stock_margin_detail_sse", "stock_dzjy_mrtj",
    "stock_dzjy_hygtj", "stock_dzjy_hyyybtj", "stock_dzjy_yybph", "stock_hsgt_hold_stock_em",
    "stock_hsgt_stock_statistics_em", "stock_hsgt_individual_em",
    "stock_hsgt_individual_detail_em", "stock_hsgt_institution_statistics_em", "stock_ggcg_em",
    "stock_gpzy_pledge_ratio_em", "stock_jgdy_tj_em", "stock_jgdy_detail_em",
    "stock_comment_detail_zlkp_jgcyd_em", "stock_comment_detail_zhpj_lspf_em", "stock_sy_em",
    "stock_sy_jz_em", "stock_sy_yq_em", "stock_sy_hy_em",
    "stock_margin_detail_szse", "stock_margin_underlying_info_szse", "stock_dividend_cninfo",
    "stock_profile_cninfo", "stock_hold_num_cninfo", "stock_hold_control_cninfo",
    "stock_hold_change_cninfo", "stock_industry_pe_ratio_cninfo", "stock_lhb_stock_statistic_em",
    "stock_lhb_jgmmtj_em", "stock_lhb_jgstatistic_em", "stock_lhb_hyyyb_em",
    "stock_lhb_yybph_em", "stock_lhb_traderstatistic_em", "stock_lhb_stock_detail_em",
    "stock_lhb_yyb_detail_em", "stock_hold_management_person_em", "stock_fhps_detail_ths",
})  # fmt: skip


def payload_of(host: str, path: str) -> Payload | None:
    """The payload of requests to this host and path. What an upstream has as a part of the path,
    such as the code of a fund, a day or the name of a variable, is a `*` in `PAYLOADS`.
    """
    return PAYLOADS.get((host, path)) or next(
        (PAYLOADS[host, known] for known in _PATTERNS[host] if fnmatchcase(path, known)), None
    )


_PATTERNS: defaultdict[str, list[str]] = defaultdict(list)
for _host, _path in PAYLOADS:
    if "*" in _path:
        _PATTERNS[_host].append(_path)


def simulate(catalog: Catalog) -> Simulation:
    """Answer AkShare's hosts with payloads, and `/tables/{tool}` with a manifest's columns."""

    def answer(request: Request) -> Reply | None:
        if not request.host and request.path.startswith("/tables/"):
            manifest = catalog.get(request.path.removeprefix("/tables/"))
            if manifest is not None:
                return Reply(orjson.dumps(columns.table(manifest, request.query, request.rng)))
        payload = payload_of(request.host, request.path)
        return payload and payload(request.query, request.rng)

    return answer
