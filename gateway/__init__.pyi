from gateway.call import Gateway as Gateway
from gateway.context import CallContext as CallContext
from gateway.errors import CallError as CallError
from gateway.errors import ErrorCode as ErrorCode
from gateway.result import Result as Result
from gateway.settings import GatewaySettings as GatewaySettings
from gateway.tables.rows import Page as Page
from gateway.trace import CallRecord as CallRecord
