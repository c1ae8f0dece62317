import type { VaultApi } from '../../vault/host/vaultApi.ts'
import type { Output } from '../output/createOutput.ts'

/** The agent that requests without a token count as, with `--insecure-no-token`. */
export const tokenlessAgent = 'no-token'
const tokenlessScopes = [
  'identity.*',
  'address.*',
  'preferences.*',
  'custom.*',
  'wallet.*',
  'credentials.*',
] as const

/** Makes the agent of `--insecure-no-token` where it is not there, and warns. */
export async function letTokenlessIn({ registry }: VaultApi, output: Output): Promise<void> {
  output.warn(
    `--insecure-no-token: every program on this machine can use this vault as the agent ${tokenlessAgent}. For test suites only.`,
  )
  if (registry.byName(tokenlessAgent)?.revokedAt !== null)
    await registry.add({ name: tokenlessAgent, scopes: tokenlessScopes })
}
