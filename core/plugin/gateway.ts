import type { ServedLink } from '../domain/link.ts'
import type { FreshOffer } from '../x402/refusedPayment.ts'
import type { Exchange } from './exchange.ts'
import type { Infer, OptionsSchema } from './options.ts'
import type { GatewayPorts, PortName } from './ports.ts'
import type { Reply } from './reply.ts'
import type { OwnSlots, SlotSource, SlotUse } from './slots.ts'

export type { Exchange } from './exchange.ts'
export { handled, jsonReply, type Reply } from './reply.ts'

/**
 * The phases of a call. `verify` stands between claim and forward, so that a repeated payment dies at the claim before
 * it costs a question to the chain. A link that settles first runs settle and record before forward.
 */
export const gatewayPhases = [
  'guard',
  'pay',
  'claim',
  'verify',
  'forward',
  'settle',
  'record',
  'respond',
] as const
export type GatewayPhase = (typeof gatewayPhases)[number]

/**
 * What runs once for every call of a program, after the answer was handed over or could not be: for a stream at its end,
 * for a tunnel once it stands. `deliver` is where a plugin decides what becomes of a payment whose call is over; `log`
 * comes behind it and decides nothing. Neither delays the answer.
 */
export const postAnswerPhases = ['deliver', 'log'] as const
export type PostAnswerPhase = (typeof postAnswerPhases)[number]

/**
 * One plugin's part in one phase. Answers `undefined` (go on), a reply (stop), or a promise of either. It may throw a
 * `TollgateError`, which becomes the answer; anything else that is thrown becomes a plain 500 with an id.
 */
export type Hook = (x: Exchange) => Reply | undefined | void | Promise<Reply | undefined | void>

/** A hook of the phases after the answer. What it throws is logged and stops nothing; nothing waits for a promise. */
export type PostAnswerHook = (x: Exchange) => void

/**
 * What a plugin has for one link version. Its functions are called as methods of it, so that a class can hold what it knows of a
 * link; where it knows nothing of its own, one object serves all links.
 */
export type RouteHooks = { readonly [P in GatewayPhase]?: Hook } & {
  readonly [P in PostAnswerPhase]?: PostAnswerHook
} & {
  /** No hook: how the link can be paid now. A refused payment, whichever plugin refuses it, is answered with this offer. */
  readonly offer?: FreshOffer
  /**
   * Called once, when this version of the link is dropped: it changed, or the generation ended. Calls that entered
   * before may still run; whatever is given back here has to allow for them.
   */
  readonly dispose?: () => void
}

/** Facts of a link version that decide, once, which hooks it gets. */
export interface RouteInfo {
  readonly link: ServedLink
  readonly isPaid: boolean
  /** When the buyer is charged. */
  readonly settle: 'after' | 'before'
}

export interface PluginInstance {
  /** Called once per link version. Undefined: this plugin has nothing to do for the link and is not in its program. */
  route(info: RouteInfo): RouteHooks | undefined
  /** Called when the generation goes live: timers, background work. */
  start?(): void
  /**
   * Called when another generation has gone live in this one's place, or the gateway stops: background work ends here.
   * Calls under way go on, for hours maybe; {@link close} follows the last of them.
   */
  stop?(): void
  /** Called when the generation's last call is done; works even after a failed start. */
  close?(): void | Promise<void>
}

export interface PluginEnv<N extends PortName, O extends OwnSlots = OwnSlots> {
  /** Only the ports named in `needs`. */
  readonly ports: Pick<GatewayPorts, N>
  /** One of the plugin's own slots, or another's that it reads. @throws for a name that is in none of its declarations */
  readonly slot: SlotSource<O>
}

export interface GatewayPlugin<
  S extends OptionsSchema = OptionsSchema,
  N extends PortName = PortName,
  O extends OwnSlots = OwnSlots,
> {
  readonly name: string
  /** Version of this contract. */
  readonly api: 1
  readonly options: S
  readonly needs: readonly N[]
  /** What its hooks read and write, by phase: checked in every program that they stand in. */
  readonly slots?: { readonly [P in GatewayPhase | PostAnswerPhase]?: SlotUse }
  /** Slots of its own, by `<plugin>/<name>`, with what they hold when a call begins. */
  readonly ownSlots?: O
  setup(options: Infer<S>, env: PluginEnv<N, O>): PluginInstance | Promise<PluginInstance>
}

/** Any plugin, its own types erased: what the loader and the compiler handle. */
export interface AnyGatewayPlugin {
  readonly name: string
  readonly api: 1
  readonly options: OptionsSchema
  readonly needs: readonly PortName[]
  readonly slots?: { readonly [P in GatewayPhase | PostAnswerPhase]?: SlotUse }
  readonly ownSlots?: OwnSlots
  setup(options: never, env: never): PluginInstance | Promise<PluginInstance>
}

/**
 * Declares a gateway plugin; adds types and nothing else.
 *
 * @example
 * export default gatewayPlugin({
 *   name: 'hello',
 *   api: 1,
 *   options: { type: 'object', additionalProperties: false, properties: {} },
 *   needs: [],
 *   setup: () => ({ route: () => ({ guard: (x) => x.addHeader('x-hello', 'world') }) }),
 * })
 */
export function gatewayPlugin<
  const S extends OptionsSchema,
  const N extends PortName,
  O extends OwnSlots = OwnSlots,
>(plugin: GatewayPlugin<S, N, O>): GatewayPlugin<S, N, O> {
  return plugin
}
