import type { VaultChain } from '../effects/chains.ts'
import { judgeRoute } from '../remote/allowedRoutes.ts'
import { scopeForms } from '../storage/records/scopes.ts'
import type { Via } from './caller.ts'

export interface CapabilityRoute {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly operation: string
  readonly description: string
}

/** The capabilities document: what an agent reads first. */
export interface Capabilities {
  readonly name: string
  readonly version: '0.2.0'
  readonly mode: 'local' | 'proxy'
  readonly local_url: string
  readonly chains: readonly string[]
  readonly routes: readonly CapabilityRoute[]
  readonly scope_examples: readonly string[]
  readonly notes: readonly string[]
}

const route = (
  method: 'GET' | 'POST',
  path: string,
  operation: string,
  description: string,
): CapabilityRoute => ({ method, path, operation, description })

/** The routes that agents may use, in the order in which they are shown. */
export const agentRoutes: readonly CapabilityRoute[] = [
  route('GET', '/address/:chain', 'get_address', 'Address of the wallet on a chain.'),
  route('POST', '/v1/vault/read', 'vault_read', 'Read the value of a scope: {scope, agent_name}.'),
  route(
    'POST',
    '/v1/vault/sign',
    'vault_sign_tx',
    'Sign a transaction: {chain, agent_name, amount, currency, unsigned_tx}. The claim is proved against the bytes.',
  ),
  route('POST', '/v1/vault/write', 'vault_write', 'Store a value: {scope, value, agent_name}.'),
  route('POST', '/v1/vault/delete', 'vault_delete', 'Delete a value: {scope, agent_name}.'),
  route(
    'POST',
    '/v1/vault/sign-message',
    'vault_sign_message',
    'Sign a text: {chain, message, encoding?, agent_name}. Never a transaction.',
  ),
  route(
    'POST',
    '/v1/vault/sign-typed-data',
    'vault_sign_typed_data',
    'Sign EIP-712 data: {chain, typed_data, amount?, currency?, recipient?, agent_name}.',
  ),
  route(
    'POST',
    '/v1/vault/sign-payment',
    'vault_sign_x402',
    'Pay an x402 offer: {payment_required, max_amount, agent_name}. The vault builds the payment.',
  ),
  route(
    'POST',
    '/v1/vault/preview',
    'vault_preview',
    'What a signing request would do and what the rules say; nothing is signed.',
  ),
  route(
    'POST',
    '/v1/vault/call',
    'vault_call',
    'Call an API with a stored credential: {scope, method, url, headers?, body?, agent_name}.',
  ),
  route('GET', '/v1/vault/scopes', 'vault_list_scopes', 'The scopes that this agent may use.'),
  route(
    'GET',
    '/v1/vault/assets',
    'vault_list_assets',
    'The chains and currencies that a claim can name, with their decimals.',
  ),
  route('GET', '/v1/vault/budget', 'vault_budget', 'What this agent spent today, and its limits.'),
  route(
    'POST',
    '/v1/vault/budget/check',
    'vault_budget_check',
    'Whether an amount fits: {chain, amount, currency?, recipient?, agent_name}.',
  ),
  route('GET', '/v1/vault/activity', 'vault_activity', 'What this agent asked for and what became of it.'),
  route('GET', '/v1/vault/approvals', 'vault_approvals', 'Open and past questions to the owner.'),
  route('GET', '/v1/vault/approvals/:id', 'vault_approval_status', 'One question to the owner.'),
  route('POST', '/v1/vault/approvals/:id/cancel', 'vault_approval_cancel', 'Take a question back.'),
  route('POST', '/v1/vault/lock', 'vault_lock', 'Lock the vault; needs the scope vault.lock.'),
]

export interface CapabilityFacts {
  readonly name: string
  readonly mode: 'local' | 'proxy'
  readonly localUrl: string
  readonly chains: readonly VaultChain[]
  /** The way that the document goes: what is not there over the relay is not in it. Default: `direct`. */
  readonly via?: Via | undefined
}

export const vaultName = 'tollgate-vault'

export function capabilitiesOf({ name, mode, localUrl, chains, via }: CapabilityFacts): Capabilities {
  return {
    name,
    version: '0.2.0',
    mode,
    local_url: localUrl,
    chains,
    routes:
      via === 'relay'
        ? agentRoutes.filter(({ method, path }) => judgeRoute(method, path) === 'allowed')
        : agentRoutes,
    scope_examples: [
      'identity.name',
      'identity.email',
      'credentials.api.github',
      'address.shipping.primary',
      'wallet.solana',
    ],
    notes: [
      'Read and write operations use POST with a scope string. Scope names are exact; there are no aliases.',
      'Sensitive operations may require approval by the owner on the desktop.',
      'While approval is awaited the request waits (Prefer: wait=25), then answers 202 with a poll address. ' +
        'Send the same request again to get its answer once it is approved.',
      'A payment or transaction does exactly what its request claims, or it is refused.',
      `Scopes: ${scopeForms.join(', ')}.`,
    ],
  }
}
