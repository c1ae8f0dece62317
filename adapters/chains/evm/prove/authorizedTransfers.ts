import type { NetworkId } from '../../../../core/domain/network.ts'
import { evmPaymentKey, evmPaymentKeyPrefix } from '../../../../core/domain/payment.ts'
import { checksumAddress } from '../../../../core/evm/address.ts'
import { topics } from '../../../../core/evm/token.ts'
import { readTransferEvent } from '../../../../core/evm/transferEvent.ts'
import type { LogEntry, Receipt } from '../../../../core/evm/transferProof.ts'
import type { MissingSettlement } from '../../../../core/ports/chains/pastSettlements.ts'

/**
 * Every transfer by authorisation (EIP-3009) in events of some tokens: AuthorizationUsed, and the very next thing that the
 * token says in that transaction is the transfer from the same wallet, as `findTransfer` has it.
 *
 * @param assets addresses in any case
 * @returns the order of the events
 */
export function authorizedTransfers(
  network: NetworkId,
  receipt: Receipt,
  assets: readonly string[],
): MissingSettlement[] {
  if (receipt.status !== '0x1') return []
  return assets.flatMap((asset) => {
    const said = receipt.logs
      .filter((log) => log.removed !== true && log.address.toLowerCase() === asset.toLowerCase())
      .sort((a, b) => Number(a.logIndex) - Number(b.logIndex))
    return said.flatMap((use, i) => settledBy(network, asset, use, said[i + 1]) ?? [])
  })
}

/** The payment that these two events are; undefined where they are none. */
export function settledBy(
  network: NetworkId,
  asset: string,
  use: LogEntry,
  next: LogEntry | undefined,
): MissingSettlement | undefined {
  const [name, payer, nonce] = use.topics
  const moved = next && readTransferEvent(next)
  if (name !== topics.authorizationUsed || payer === undefined || nonce === undefined) return
  if (moved === undefined || `0x${moved.from}`.toLowerCase() !== payer.toLowerCase()) return
  const from = walletOf(moved.from)
  return {
    key: evmPaymentKey(evmPaymentKeyPrefix(network, asset), from, nonce.toLowerCase()),
    transaction: use.transactionHash.toLowerCase(),
    asset,
    payer: checksumAddress(from),
    payTo: checksumAddress(walletOf(moved.to)),
    amountAtomic: moved.amountAtomic,
  }
}

/** In lower case. @param word 32 bytes, hex without 0x */
const walletOf = (word: string): string => `0x${word.slice(24).toLowerCase()}`
