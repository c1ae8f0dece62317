import { scopeForms } from '../agents/grant.ts'
import type { Via } from '../host/caller.ts'
import type { VaultApi } from '../host/createVaultApi.ts'
import { actions } from './actions.ts'
import { lookups, outcomes } from './lookups.ts'
import { type Endpoint, type Method, type Operation, operation, type Tool } from './operation.ts'
import { lockOperations, ownerOperations } from './owner.ts'

interface CapabilityRoute {
  readonly method: Method
  readonly path: string
  readonly operation: string
  readonly description: string
}

/** The capabilities document, which an agent reads first. */
interface Capabilities {
  readonly name: string
  readonly version: string
  readonly mode: 'local' | 'proxy'
  readonly local_url: string
  readonly chains: readonly string[]
  readonly routes: readonly CapabilityRoute[]
  readonly scope_examples: readonly string[]
  readonly notes: readonly string[]
}

export const vaultName = 'tollgate-vault'
export const interfaceVersion = '0.2.0'

/** @param via the transport of the request. Over the relay, the document omits what is not available there */
export function capabilitiesOf(
  { chains, localUrl }: ReturnType<VaultApi['about']>,
  via: Via,
  operations: readonly Operation[],
): Capabilities {
  return {
    name: vaultName,
    version: interfaceVersion,
    mode: 'local',
    local_url: localUrl,
    chains,
    routes: operations
      .filter(({ isRemote }) => via !== 'relay' || isRemote)
      .flatMap(({ at: [first], name: operation, description = '' }) => {
        const [method, path] = first!.split(' ') as [Method, string]
        return operation === undefined ? [] : { method, path, operation, description }
      }),
    scope_examples: [
      'identity.name',
      'identity.email',
      'credentials.api.github',
      'address.shipping.primary',
      'wallet.solana',
    ],
    notes: [
      'Read and write operations use POST with a scope string. Scope names are exact and have no aliases.',
      'Sensitive operations may require approval by the owner on the desktop.',
      'While approval is pending the request waits (Prefer: wait=25), then returns 202 with a poll address. ' +
        'Once it is approved, send the same request again to get its result.',
      'A payment or transaction does exactly what its request claims, or it is refused.',
      `Scopes: ${scopeForms.join(', ')}.`,
    ],
  }
}

/** Operations without a credential. They show that the vault runs and how to use it. */
const openOperations = [
  operation({ at: 'GET /health', who: 'anyone', run: () => ({ status: 'ok' }) }),
  operation({
    at: 'GET /v1/capabilities',
    who: 'anyone',
    isRemote: true,
    run: (api, { context }) => capabilitiesOf(api.about(), context.caller.via, operations),
  }),
]

/**
 * All operations of the vault. Each row is an HTTP route. With `name` it is also an entry of the capabilities document,
 * with `isRemote` a route over the relay, and with `tool` an MCP tool. The order is the same everywhere.
 */
export const operations: readonly Operation[] = [
  ...openOperations,
  ...lookups,
  ...actions,
  ...outcomes,
  ...lockOperations,
  ...ownerOperations,
]

export interface Route<M extends Method = Method> {
  readonly method: M
  readonly path: string
  readonly operation: Operation
}

/** All HTTP routes. */
export const routes: readonly Route[] = operations.flatMap((one) =>
  one.at.map((endpoint) => ({ ...partsOf(endpoint), operation: one })),
)

/** The routes for agents on other machines, which never include the owner's. */
export const remoteRoutes = routes.filter(
  (route): route is Route<'GET' | 'POST'> => route.operation.isRemote === true,
)

/** Whether a path is open to callers without a credential. Also used for HEAD. */
export const isOpenPath = (path: string): boolean =>
  routes.some((route) => route.path === path && openOperations.includes(route.operation))

/**
 * All MCP tools. No tool unlocks the vault, approves, or changes what agents may do, because those operations belong to the
 * owner, who does not use MCP.
 */
export const tools: readonly Tool[] = operations.flatMap(({ tool }) => tool ?? [])

function partsOf(endpoint: Endpoint): { method: Method; path: string } {
  const [method, path] = endpoint.split(' ') as [Method, string]
  return { method, path }
}
