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
from adapters.simulator.akshare_bonds import BONDS
from adapters.simulator.akshare_eastmoney import EASTMONEY
from adapters.simulator.akshare_economy import ECONOMY
from adapters.simulator.akshare_macro import MACRO
from adapters.simulator.akshare_market import MARKET
from adapters.simulator.shapes import Payload, Reply, Request, Simulation
from manifests import Catalog

PAYLOADS: Mapping[tuple[str, str], Payload] = {
    **EASTMONEY,
    **MARKET,
    **ECONOMY,
    **BONDS,
    **MACRO,
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
})  # fmt: skip


_SUBJECT = re.compile(
    r"(?<=^/pingzhongdata/)\d+|(?<=^/fhsp_)\d+|(?<=^/bond/info/)\w+|(?<=^/bond/quotes/)\w+"
    r"|(?<=^/sf2/day-)[\d-]+"
    r"|(?<=/SelectByDocId/)data_docId=\d+|(?<=^/listes/)list_billionairesx\d\d(?=xwor)"
)
"""The code or day that is asked for, where it is a part of the path."""


def simulate(catalog: Catalog) -> Simulation:
    """Answer AkShare's hosts with payloads, and `/tables/{tool}` with a manifest's columns."""

    def answer(request: Request) -> Reply | None:
        if not request.host and request.path.startswith("/tables/"):
            manifest = catalog.get(request.path.removeprefix("/tables/"))
            if manifest is not None:
                return Reply(orjson.dumps(columns.table(manifest, request.query, request.rng)))
        payload = PAYLOADS.get((request.host, _SUBJECT.sub("*", request.path)))
        return payload and payload(request.query, request.rng)

    return answer
