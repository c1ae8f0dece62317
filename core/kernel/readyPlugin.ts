import type { AnyGatewayPlugin, PluginInstance, RouteInfo } from '../plugin/gateway.ts'
import type { When } from './when.ts'

/** One entry of the configuration's plugin list, set up. */
export interface ReadyPlugin {
  readonly plugin: AnyGatewayPlugin
  readonly instance: PluginInstance
  /** Whether the entry's `when` lets it run for a link. */
  readonly applies: (info: RouteInfo) => boolean
  /** As the entry has them, for those who ask what runs and why. */
  readonly options?: unknown
  readonly when?: When | undefined
}
