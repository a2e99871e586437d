"""Infers from a question's words what it needs of the tools that answer it.

The word lists are ours, in English and Chinese. They are meant to be silent rather than wrong: a
need that no word implies is not judged.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from manifests.manifest import Domain

DOMAIN_WORDS: dict[Domain, str] = {
    "equity": """
        stock, stocks, share price, shareholder, shareholders, equity, equities, nasdaq, nyse, ipo,
        dow jones, s&p 500, earnings, eps, dividend, dividends, revenue, ebitda, net income,
        operating income, balance sheet, income statement, cash flow, gross margin, capex,
        operating margin, accounts payable, inventory turnover, market cap, p/e, insiders, 10-k,
        股票, 个股, A股, 港股, 美股, 股价, 股份, 股东, 上市公司, 持股, 减持, 增持, 分红, 派息,
        市盈率, 市净率, 财报, 年报, 季报, 营收, 营业收入, 净利润, 毛利率, 资产负债率, 现金流量,
        每股收益, 涨停, 跌停, 大盘, 沪深300, 科创板, 创业板, 北交所, 恒生指数, 板块, 新股, 解禁""",
    "bond": """
        bond, bonds, treasury, treasuries, yield, yields, yield curve, coupon, debt securities,
        convertible, convertibles, debt issuance, fixed income, repo,
        债券, 国债, 转债, 信用债, 城投债, 地方债, 企业债, 公司债, 债基, 票面利率, 收益率曲线,
        中债, 国开债, 同业存单, 逆回购, 回购定盘""",
    "fund": """
        fund, funds, etf, etfs, reit, reits, nav, net asset value, retirement plan, pension,
        lof, 基金, 单位净值, 累计净值, 私募, 公募, 申购, 赎回, 债基""",
    "forex": """
        forex, fx, exchange rate, exchange rates, currency pair, currencies, dollar index, yuan,
        renminbi, yen, sterling, euro, euros, eur/usd, usd/jpy, gbp/usd, usd/cny,
        外汇, 汇率, 兑美元, 对美元, 美元指数, 中间价, 货币对, 换汇, 人民币兑, 离岸人民币""",
    "derivatives": """
        futures, option chain, option expiration, options expiring, options, call option,
        put option, strike, strikes, open interest, implied volatility, derivative, derivatives,
        perpetual, swap rate, crude oil, gold price, commodity, commodities,
        期货, 期权, 主力合约, 持仓量, 隐含波动率, 基差, 掉期, 互换, 原油, 大宗商品, 黄金T+D""",
    "macro": """
        gdp, cpi, ppi, pmi, hicp, inflation, unemployment, payrolls, macroeconomic, macro,
        interest rate, interest rates, money supply, trade balance, industrial production,
        retail sales, consumer confidence, house prices, hibor, shibor, libor,
        lpr, 宏观, 失业率, 通胀, 通货膨胀, 社融, 社会融资, 货币供应, 进出口,
        贸易差额, 工业增加值, 固定资产投资, 消费者信心, 非农, 基准利率, 存款准备金,
        外汇储备, 社会消费品, 房价, 房价格, 批发价""",
    "economic_policy": """
        policy, policies, central bank, monetary, fomc, rate cut, rate hike, tariff, tariffs,
        sales tax, regulator, penalised, sanctions,
        政策, 央行, 降息, 加息, 降准, 美联储, 议息, 监管, 印花税, 行政处罚""",
    "sentiment_trading": """
        sentiment, fear and greed, headlines, news, trending, most active, gainers, losers,
        fund flow, money inflow, net inflow, short interest, popularity, retail interest,
        情绪, 热度, 人气, 资金流, 主力资金, 北向资金, 龙虎榜, 大宗交易, 融资余额, 舆情, 新闻,
        关注度, 关注指数, 异动, 看多, 看空, 电报""",
    "esg": """
        esg, carbon, emission, emissions, emission-rights, sustainability, climate, pollution,
        碳排放, 碳中和, 碳达峰, 排污权, 社会责任, 可持续, 绿色""",
    "crypto": """
        bitcoin, btc, btcusd, btcusdt, ethereum, ether, ethusd, ethusdt, crypto, cryptocurrency,
        cryptocurrencies, blockchain, stablecoin, defi, nft, dogecoin, solana, binance, bybit,
        比特币, 以太坊, 以太币, 狗狗币, 加密货币, 虚拟货币, 区块链, 稳定币""",
}

LIVE_WORDS = """
    right now, real-time, realtime, real time, live, intraday, today, at this moment, at the moment,
    实时, 盘中, 现在, 此刻, 今天, 今日, 眼下"""
LATEST_WORDS = "latest, current, currently, now, newest, most recent, 最新, 当前, 目前, 最近, 近期"
FILED_WORDS = """
    annual report, quarterly report, fiscal year, 10-k, 10-q, balance sheet, income statement,
    cash flow statement, statement of income, p&l statement, statement of financial position,
    年报, 中报, 半年报, 季报, 财报, 财务报表, 招股书"""
_FISCAL_YEAR = re.compile(r"\bfy\s?'?\d{2,4}\b")

ADVICE_WORDS = """
    recommend, recommends, recommendation, recommendations, advice, advise, should, rating, ratings,
    price target, price targets, target price, forecast, forecasts, outlook, analyst, analysts,
    opinion, consensus, upgrade, upgraded, downgrade, downgraded, sentiment, speculators,
    推荐, 建议, 应该, 该不该, 值得, 评级, 目标价, 预测, 预期, 看好, 看法, 观点, 分析师, 机构,
    盈利概率, 情绪"""
TRADE_WORDS = """
    buy, sell, place an order, swap, convert, exchange my, transfer, send, payment, payments,
    wallet, gas, arbitrage, 下单, 买入, 卖出, 转账, 汇款, 兑换, 换成, 付款, 支付, 钱包, 套利,
    手续费"""

Time = Literal["live", "latest", "filed"]


@dataclass(frozen=True, slots=True)
class Needs:
    """`domains` is empty and `time` is None where no word implies one. `advice` says whether the
    question asks for an opinion, `trade` whether it asks to move money or for what that takes.
    """

    domains: frozenset[Domain]
    time: Time | None
    advice: bool
    trade: bool


class _Words:
    """A word list. English words match whole words only, Chinese ones match anywhere."""

    def __init__(self, text: str) -> None:
        words = {" ".join(word.lower().split()) for word in text.split(",")}
        english = {word for word in words if word.isascii()}
        self._chinese = tuple(sorted(words - english))
        self._single = frozenset(word for word in english if " " not in word)
        self._phrases = tuple(sorted(f" {word} " for word in english - self._single))

    def occur_in(self, question: "_Question") -> bool:
        return (
            not self._single.isdisjoint(question.words)
            or any(phrase in question.spaced for phrase in self._phrases)
            or any(word in question.text for word in self._chinese)
        )


class _Question:
    """A question in the forms that word lists match against."""

    def __init__(self, text: str) -> None:
        self.text = text.lower()
        found = re.findall(r"[a-z0-9][a-z0-9&/+-]*", self.text)
        self.words = frozenset(found)
        self.spaced = f" {' '.join(found)} "


_DOMAINS = {domain: _Words(text) for domain, text in DOMAIN_WORDS.items()}
_LIVE, _LATEST, _FILED = map(_Words, (LIVE_WORDS, LATEST_WORDS, FILED_WORDS))
_ADVICE, _TRADE = map(_Words, (ADVICE_WORDS, TRADE_WORDS))


@lru_cache(4096)
def needs_of(question: str) -> Needs:
    """The needs of a question. Its time is None if it speaks both of filed reports and of the
    present.
    """
    read = _Question(question)
    return Needs(
        domains=frozenset(d for d, words in _DOMAINS.items() if words.occur_in(read)),
        time=_time(read),
        advice=_ADVICE.occur_in(read),
        trade=_TRADE.occur_in(read),
    )


def _time(read: _Question) -> Time | None:
    filed = _FILED.occur_in(read) or _FISCAL_YEAR.search(read.text) is not None
    live, latest = _LIVE.occur_in(read), _LATEST.occur_in(read)
    if filed:
        return None if live or latest else "filed"
    return "live" if live else "latest" if latest else None
