"""Made-up but well-formed answers of AkShare's upstreams.

Each payload has the field names, nesting, encoding and file format that AkShare reads from the real
host, so its own parser turns the reply into a real frame. `PAYLOADS` finds the payload of a request
by host and path; `FUNCTIONS` names the AkShare functions all of whose requests are served. All
values are invented. Other functions are answered under `/tables/{tool}`.
"""

import re
from collections.abc import Mapping

import orjson

from adapters.simulator import columns
from adapters.simulator.akshare_company_pages import COMPANY_PAGES
from adapters.simulator.akshare_eastmoney import EASTMONEY
from adapters.simulator.akshare_economy import ECONOMY
from adapters.simulator.akshare_market import MARKET
from adapters.simulator.shapes import Payload, Reply, Request, Simulation
from manifests import Catalog

PAYLOADS: Mapping[tuple[str, str], Payload] = {**EASTMONEY, **MARKET, **ECONOMY, **COMPANY_PAGES}

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


_OF_FUND = re.compile(
    r"(?<=^/pingzhongdata/)\d+|(?<=^/fhsp_)\d+|(?<=^/api/stock/finance/)\d+|(?<=^/new/)\d+"
)
"""The code of a fund or a share, where it is a part of the path."""


def simulate(catalog: Catalog) -> Simulation:
    """Answer AkShare's hosts with payloads, and `/tables/{tool}` with a manifest's columns."""

    def answer(request: Request) -> Reply | None:
        if not request.host and request.path.startswith("/tables/"):
            manifest = catalog.get(request.path.removeprefix("/tables/"))
            if manifest is not None:
                return Reply(orjson.dumps(columns.table(manifest, request.query, request.rng)))
        payload = PAYLOADS.get((request.host, _OF_FUND.sub("*", request.path)))
        return payload and payload(request.query, request.rng)

    return answer
