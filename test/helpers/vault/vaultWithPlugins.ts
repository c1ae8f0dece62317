import type { VaultPluginEntry } from '../../../vault/host/pipelines.ts'
import { defaultPluginLimits } from '../../../vault/sandbox/sandboxedPlugin.ts'
import { startVault } from './startVault.ts'
import { signBody, smallPayments } from './transfers.ts'

interface Test {
  teardown(work: () => unknown): unknown
}

export const noWait = { prefer: 'wait=0' }
/** Long enough for a machine under load where nothing is waited for, short where the end of it is. */
export const limits = { ...defaultPluginLimits, restartMinMs: 10, restartMaxMs: 20 }
export const impatient = { ...limits, callMs: 400 }

/** A vault with these plugins, an agent with small payments, and what the log said. */
export async function vaultWith(t: Test, plugins: readonly VaultPluginEntry[], pluginLimits = limits) {
  const lines: { plugin?: string; reason?: string; text: string }[] = []
  const note = (fields: object, text: string) => void lines.push({ ...fields, text })
  const log = { debug: note, info: note, warn: note, error: note }
  const vault = await startVault(t, { plugins, pluginLimits, log })
  const agent = await vault.agent('a', ['wallet.base', 'wallet.solana', 'custom.x', 'auto:write:custom.*'])
  await vault.api.policies.set('a', smallPayments, vault.owner)
  return {
    vault,
    lines,
    sign: (amount = '0.5', nonce = 0) =>
      agent.call('POST', '/v1/vault/sign', signBody(amount, nonce), noWait),
    agent,
  }
}

/** The code of hooks for the phase authorize of every operation. */
export const authorize = (body: string, head = 'x') =>
  `return { route: () => ({ authorize: (${head}) => { ${body} } }) }`
