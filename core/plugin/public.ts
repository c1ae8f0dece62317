/**
 * The module `tollgate/plugin`, which a plugin in its own package imports. Types are enough to write a plugin, and a plugin that
 * imports only types runs without Tollgate installed beside it. The functions are conveniences.
 *
 * @example import type { GatewayPlugin } from 'tollgate/plugin'
 */
export type { Link, LinkSuspension, Payout, ServedLink } from '../domain/link.ts'
export type { PaymentIdentity, PaymentState } from '../domain/payment.ts'
export type { ErrorCode } from '../errors/codes.ts'
export { isTollgateError, TollgateError, type TollgateErrorOptions } from '../errors/error.ts'
export type { PaidCall, PresentedPayment } from '../payments/payments.ts'
export type { PurchaseNote } from '../payments/purchase.ts'
export type { Taken } from '../ports/counters.ts'
export type { SellerResponse, Settlement, SignedIn } from './exchange.ts'
export {
  type AfterResponseHook,
  type AfterResponsePhase,
  type Exchange,
  type GatewayPhase,
  type GatewayPlugin,
  gatewayPlugin,
  type Hook,
  handled,
  jsonReply,
  type PluginEnv,
  type PluginInstance,
  type Reply,
  type RouteHooks,
  type RouteInfo,
} from './gateway.ts'
export type { Infer, Option, OptionsSchema } from './options.ts'
export type { GatewayPorts, PortName, ServiceFacts } from './ports.ts'
export type { ForeignSlot, OwnSlot, OwnSlotName, PaymentSlot, Slot, SlotUse } from './slots.ts'
export type { Transport, Upgrade } from './transport.ts'
export {
  type ApprovalKind,
  type ApprovalPart,
  type ApprovalQueue,
  type ApprovalRequest,
  type ApprovalRequestState,
  approvalKinds,
  type PluginStore,
  type RequestView,
  shortHash,
  type VaultCaller,
  type VaultDecision,
  type VaultExchange,
  type VaultHook,
  type VaultHooks,
  type VaultOperation,
  type VaultPhase,
  type VaultPlugin,
  type VaultPluginInstance,
  type VaultPortName,
  type VaultPorts,
  type VerdictView,
  vaultOperations,
  vaultPhases,
  vaultPlugin,
} from './vault.ts'
