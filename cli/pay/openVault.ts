import { createEvmCheck } from '../../adapters/chains/evm/check/check.ts'
import { checkSolanaPayment } from '../../adapters/chains/solana/check/checkSolanaPayment.ts'
import { solanaRules } from '../../adapters/chains/solana/check/solanaRules.ts'
import { readTarget } from '../../buyer/targetUrl.ts'
import { UsageError } from '../../buyer/usageError.ts'
import type { CheckPayment } from '../../buyer/vault/orderedBuyer.ts'
import { type AskVault, createVaultClient } from '../../buyer/vault/vaultClient.ts'
import { builtInAssets } from '../../core/domain/asset.ts'
import { familyOf } from '../../core/domain/network.ts'
import { systemClock } from '../../core/ports/clock.ts'
import { readPrivateFile } from './readPrivateFile.ts'

export interface VaultSource {
  readonly vault: string
  readonly tokenFile?: string
  readonly env: Readonly<Record<string, string | undefined>>
}

/**
 * The way to a vault. The token comes from a file (mode 0600) or from `TOLLGATE_VAULT_TOKEN`, never from an argument; a
 * proxy on this machine needs none.
 *
 * @throws {UsageError} which never repeats the token
 */
export async function openVaultClient({ vault, tokenFile, env }: VaultSource): Promise<AskVault> {
  let base: URL
  try {
    base = readTarget(vault, false)
  } catch {
    throw new UsageError(
      'Expected --vault to be the address of a vault or its proxy, such as http://127.0.0.1:8421; https: unless it is on this machine.',
    )
  }
  const token =
    tokenFile === undefined
      ? env['TOLLGATE_VAULT_TOKEN']?.trim() || undefined
      : await readPrivateFile(tokenFile, 'file of --vault-token-file')
  if (token !== undefined && !/^[\x21-\x7e]{1,256}$/.test(token))
    throw new UsageError('The token has another form. Expected vat_… as the vault printed it.')
  return createVaultClient(base, token)
}

/** What a vault gives back for an order is checked as a gateway checks it, in the tokens that we know. */
export const checkPayment: CheckPayment = (payment, terms) => {
  const { network, extra } = terms
  const assets = builtInAssets
  if (familyOf(network) !== 'solana')
    return createEvmCheck({ network, assets, clock: systemClock })(payment, terms)
  const feePayers = [String(extra['feePayer'])]
  return checkSolanaPayment(payment, terms, solanaRules({ network, feePayers, assets }))
}
