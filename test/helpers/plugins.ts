import {
  type AnyGatewayPlugin,
  gatewayPlugin,
  type PluginInstance,
  type RouteHooks,
} from '../../core/plugin/gateway.ts'

export const noOptions = { type: 'object', additionalProperties: false, properties: {} } as const

/** A plugin of these hooks on every link. */
export const pluginOf = (name: string, hooks: RouteHooks, more: Partial<PluginInstance> = {}) =>
  gatewayPlugin({
    ...{ name, api: 1, options: noOptions, needs: [] },
    setup: () => ({ route: () => hooks, ...more }),
  }) as AnyGatewayPlugin

/** These plugins and then the forwarder: the least that serves a free link. */
export const withUpstream = (...names: string[]) => [...names.map((use) => ({ use })), { use: 'upstream' }]
