import type { ServedLink } from '../domain/link.ts'
import type { Exchange, Slot } from './exchange.ts'
import type { Infer, OptionsSchema } from './options.ts'
import type { GatewayPorts, PortName } from './ports.ts'
import type { Reply } from './reply.ts'

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
 * One plugin's part in one phase. Answers `undefined` (go on), a reply (stop), or a promise of either. It may throw a
 * `TollgateError`, which becomes the answer; anything else that is thrown becomes a plain 500 with an id.
 */
export type Hook = (x: Exchange) => Reply | undefined | void | Promise<Reply | undefined | void>

export type RouteHooks = { readonly [P in GatewayPhase]?: Hook } & {
  /** Runs after every call, whatever became of it, and never delays the answer. */
  readonly log?: (x: Exchange) => void
  /**
   * Called once, when this version of the link is dropped: it changed, or the generation ended. Calls that entered
   * before may still run; whatever is given back here has to allow for them.
   */
  readonly dispose?: () => void
}

/** What a plugin's hooks of one phase take from earlier ones and leave for later ones. */
export interface SlotUse {
  readonly reads?: readonly Slot[]
  readonly writes?: readonly Slot[]
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

export interface PluginEnv<N extends PortName> {
  /** Only the ports named in `needs`. */
  readonly ports: Pick<GatewayPorts, N>
}

export interface GatewayPlugin<S extends OptionsSchema = OptionsSchema, N extends PortName = PortName> {
  readonly name: string
  /** Version of this contract. */
  readonly api: 1
  readonly options: S
  readonly needs: readonly N[]
  readonly slots?: { readonly [P in GatewayPhase]?: SlotUse }
  setup(options: Infer<S>, env: PluginEnv<N>): PluginInstance | Promise<PluginInstance>
}

/** Any plugin, its own types erased: what the loader and the compiler handle. */
export interface AnyGatewayPlugin {
  readonly name: string
  readonly api: 1
  readonly options: OptionsSchema
  readonly needs: readonly PortName[]
  readonly slots?: { readonly [P in GatewayPhase]?: SlotUse }
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
export function gatewayPlugin<const S extends OptionsSchema, const N extends PortName>(
  plugin: GatewayPlugin<S, N>,
): GatewayPlugin<S, N> {
  return plugin
}
