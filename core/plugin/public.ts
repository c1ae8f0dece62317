/**
 * What a plugin in a package of its own imports, as `tollgate/plugin`. The types are enough to write one; the functions
 * are conveniences, so that a plugin that imports types only runs without Tollgate being installed beside it.
 *
 * @example
 * import type { GatewayPlugin } from 'tollgate/plugin'
 */
export type { Link, LinkSuspension, Payout, ServedLink } from '../domain/link.ts'
export type { PaymentIdentity, PaymentState } from '../domain/payment.ts'
export type { ErrorCode } from '../errors/codes.ts'
export { isTollgateError, TollgateError, type TollgateErrorOptions } from '../errors/error.ts'
export type { Taken } from '../ports/counters.ts'
export type { Door, Upgrade } from './door.ts'
export type { PaidCall, PresentedPayment, PurchaseNote, SellerAnswer, Settlement } from './exchange.ts'
export {
  type Exchange,
  type GatewayPhase,
  type GatewayPlugin,
  gatewayPlugin,
  type Hook,
  handled,
  jsonReply,
  type PluginEnv,
  type PluginInstance,
  type PostAnswerHook,
  type PostAnswerPhase,
  type Reply,
  type RouteHooks,
  type RouteInfo,
} from './gateway.ts'
export type { Infer, Option, OptionsSchema } from './options.ts'
export type { GatewayPorts, PortName, ServiceFacts } from './ports.ts'
export { shortHash } from './shortHash.ts'
export type { ForeignSlot, OwnSlot, OwnSlotName, PaymentSlot, Slot, SlotUse } from './slots.ts'
export {
  type ApprovalDesk,
  type ApprovalQuestion,
  type PluginStore,
  type QuestionKind,
  type QuestionPart,
  type QuestionState,
  questionKinds,
  type RequestView,
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
