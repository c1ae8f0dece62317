import type { ServedLink } from '../domain/link.ts'
import type { Reply } from '../http/replies.ts'
import type { FreshOffer } from '../offers/refusedPayment.ts'
import type { Exchange } from './exchange.ts'
import type { Infer, OptionsSchema } from './options.ts'
import type { GatewayPorts, PortName } from './ports.ts'
import type { OwnSlots, SlotSource, SlotUse } from './slots.ts'

export { handled, jsonReply, type Reply } from '../http/replies.ts'
export type { Exchange } from './exchange.ts'

/**
 * The phases of a call. `verify` runs after `claim`, so that a repeated payment stops at its claim and causes no request to the
 * chain. `verify` runs before `forward`. If the link charges first, `settle` and `record` run before `forward`.
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
 * Hooks that run once for every call, after the response was sent or could not be sent. For a stream they run at its end, for a
 * WebSocket tunnel once it is open. A `deliver` hook decides the outcome of a payment whose call has ended. A `log` hook runs after
 * `deliver` and decides nothing. Neither phase delays the response.
 */
export const afterResponsePhases = ['deliver', 'log'] as const
export type AfterResponsePhase = (typeof afterResponsePhases)[number]

/**
 * One plugin's hook in one phase. It returns `undefined` to continue, a reply to end the pipeline, or a promise of either. If it
 * throws a `TollgateError`, that error becomes the response. Any other error becomes a plain 500 response with the request id.
 */
export type Hook = (x: Exchange) => Reply | undefined | void | Promise<Reply | undefined | void>

/** A hook that runs after the response. The gateway logs its errors and does not await its promises. */
export type AfterResponseHook = (x: Exchange) => void

/**
 * A plugin's hooks for one link version. The gateway calls them as methods, so an instance of a class can have the state of a link.
 * If a plugin has no such state, one object serves all links.
 */
export type RouteHooks = { readonly [P in GatewayPhase]?: Hook } & {
  readonly [P in AfterResponsePhase]?: AfterResponseHook
} & {
  /**
   * The offer with which the link can be paid now. It is not a hook. If any plugin refuses a payment, the response contains this
   * offer.
   */
  readonly offer?: FreshOffer
  /**
   * Called once when the gateway drops this version of the link, because the link changed or the configuration was replaced. Calls
   * that have already started may still run, so `dispose` must not release what these calls use.
   */
  readonly dispose?: () => void
}

/** Facts of a link version, from which `route` decides the hooks of the link. */
export interface RouteInfo {
  readonly link: ServedLink
  readonly isPaid: boolean
  /** Whether the buyer is charged after or before the gateway calls the seller's API. */
  readonly settle: 'after' | 'before'
}

export interface PluginInstance {
  /**
   * Called once per link version. Returns the plugin's hooks for the link. If it returns undefined, the plugin is not in the link's
   * pipeline.
   */
  route(info: RouteInfo): RouteHooks | undefined
  /** Called when this configuration starts to serve calls. Starts timers and background work. */
  start?(): void
  /**
   * Called when a new configuration has replaced this one, or when the gateway stops. Ends background work. Running calls continue,
   * possibly for hours. The gateway calls {@link close} after the last of them.
   */
  stop?(): void
  /** Called when the last call of this configuration has ended, even if `start` failed. */
  close?(): void | Promise<void>
}

export interface PluginEnv<N extends PortName, O extends OwnSlots = OwnSlots> {
  /** The ports that `needs` names, and no others. */
  readonly ports: Pick<GatewayPorts, N>
  /**
   * Returns one of the plugin's own slots, or a slot of another plugin that this plugin declared to read.
   *
   * @throws for a name that the plugin has not declared
   */
  readonly slot: SlotSource<O>
}

export interface GatewayPlugin<
  S extends OptionsSchema = OptionsSchema,
  N extends PortName = PortName,
  O extends OwnSlots = OwnSlots,
> {
  readonly name: string
  /** Version of this plugin contract. */
  readonly api: 1
  readonly options: S
  readonly needs: readonly N[]
  /**
   * The slots that the plugin's hooks read and write, by phase. The gateway checks these declarations in every pipeline with these
   * hooks.
   */
  readonly slots?: { readonly [P in GatewayPhase | AfterResponsePhase]?: SlotUse }
  /** The plugin's own slots, named `<plugin>/<name>`, with their initial values in each call. */
  readonly ownSlots?: O
  setup(options: Infer<S>, env: PluginEnv<N, O>): PluginInstance | Promise<PluginInstance>
}

/** Any plugin without its own types, for the loader and the compiler. */
export interface AnyGatewayPlugin {
  readonly name: string
  readonly api: 1
  readonly options: OptionsSchema
  readonly needs: readonly PortName[]
  readonly slots?: { readonly [P in GatewayPhase | AfterResponsePhase]?: SlotUse }
  readonly ownSlots?: OwnSlots
  setup(options: never, env: never): PluginInstance | Promise<PluginInstance>
}

/**
 * Declares a gateway plugin. It only adds types.
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
