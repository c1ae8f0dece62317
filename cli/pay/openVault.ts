import { createEvmCheck } from '../../adapters/chains/evm/check/payment.ts'
import { checkSolanaPayment } from '../../adapters/chains/solana/check/payment.ts'
import { solanaRules } from '../../adapters/chains/solana/check/rules.ts'
import { UsageError } from '../../buyer/buyer.ts'
import { readTarget } from '../../buyer/httpCall.ts'
import type { CheckPayment } from '../../buyer/vault/orderedBuyer.ts'
import { type CallVault, createVaultClient } from '../../buyer/vault/vaultClient.ts'
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
 * Creates the client of a vault. The token comes from a file (mode 0600) or from `TOLLGATE_VAULT_TOKEN`, never from an
 * argument. A proxy on this machine needs no token.
 *
 * @throws {UsageError} The message never contains the token
 */
export async function openVaultClient({ vault, tokenFile, env }: VaultSource): Promise<CallVault> {
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
    throw new UsageError('The token has the wrong form. Expected vat_… as the vault printed it.')
  return createVaultClient(base, token)
}

/** Checks a vault's payment as a gateway does, for payments in the known tokens. */
export const checkPayment: CheckPayment = (payment, terms) => {
  const { network, extra } = terms
  const assets = builtInAssets
  if (familyOf(network) !== 'solana') {
    const facilitators = new Set([String(extra['facilitatorAddress']).toLowerCase()])
    return createEvmCheck({ network, assets, clock: systemClock, facilitators })(payment, terms)
  }
  const feePayers = [String(extra['feePayer'])]
  return checkSolanaPayment(payment, terms, solanaRules({ network, feePayers, assets }))
}
