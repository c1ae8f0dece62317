import { evmPaymentKey, evmPaymentKeyPrefix, transferKey } from '../../../../core/domain/payment.ts'
import { checksumAddress } from '../../../../core/evm/address.ts'
import { quantity } from '../../../../core/evm/quantity.ts'
import { topics } from '../../../../core/evm/token.ts'
import { readTransferEvent } from '../../../../core/evm/transferEvent.ts'
import type { LogEntry, Receipt } from '../../../../core/evm/transferProof.ts'
import { addressWord } from '../../../../core/evm/words.ts'
import type {
  FoundTransfer,
  TransferVerdict,
  WantedTransfer,
} from '../../../../core/ports/chains/transferProofs.ts'
import { RpcUnreachable } from '../../../../core/rpc/rpcError.ts'

/**
 * Which transfers of a receipt pay what is wanted: the token's own events say so, whoever called it. A transfer right
 * behind an AuthorizationUsed of its sender is that authorisation's, as `findTransfer` has it.
 *
 * @param atMs time of the receipt's block, in ms since 1970
 * @throws {RpcUnreachable} when a node wrote numbers that are none
 */
export function judgeTransfers(receipt: Receipt, wanted: WantedTransfer, atMs: number): TransferVerdict {
  if (receipt.status !== '0x1') return { status: 'mismatch', what: 'failed' }
  const logs = receipt.logs.filter((log) => log.removed !== true).map((log) => ({ ...log, at: placeOf(log) }))
  logs.sort((a, b) => a.at - b.at)
  const asset = wanted.asset.toLowerCase()
  const said = logs.flatMap((log, place) =>
    log.address.toLowerCase() === asset ? [{ log, place, moved: readTransferEvent(log) }] : [],
  )
  const payee = addressWord(wanted.payTo)
  if (said.every(({ moved }) => moved === undefined)) return { status: 'mismatch', what: 'asset' }
  const got = said.flatMap((one, i) =>
    one.moved?.to === payee ? [{ ...one, moved: one.moved, before: said[i - 1]?.log }] : [],
  )
  if (got.length === 0) return { status: 'mismatch', what: 'recipient' }
  const sent = got.filter(({ moved }) => BigInt(`0x${moved.from}`) !== 0n && moved.from !== payee)
  if (sent.length === 0) return { status: 'mismatch', what: 'sender' }
  const fitting = sent.filter(({ moved }) => moved.amountAtomic === wanted.amountAtomic)
  if (fitting.length === 0) {
    const movedAtomic = sent.reduce((sum, { moved }) => sum + moved.amountAtomic, 0n)
    return { status: 'mismatch', what: 'amount', movedAtomic }
  }
  if (atMs < wanted.notBeforeMs) return { status: 'mismatch', what: 'time', atMs }
  const { network } = wanted
  const transaction = receipt.transactionHash.toLowerCase()
  const transfers = fitting.map(({ moved, place, before }): FoundTransfer => {
    const from = `0x${moved.from.slice(24)}`.toLowerCase()
    // Numbered within its transaction: a block's own numbers are others after a reorganisation.
    const event = `transfer:${place}`
    const isAuthorized = before?.topics[0] === topics.authorizationUsed && isOf(before, moved.from)
    const nonce = isAuthorized ? before.topics[2]!.toLowerCase() : `${transaction}:${place}`
    return {
      key: isAuthorized
        ? evmPaymentKey(evmPaymentKeyPrefix(network, wanted.asset), from, nonce)
        : transferKey(network, transaction, event),
      nonce,
      transaction,
      event: isAuthorized ? String(before.at) : event,
      from: checksumAddress(from),
      amountAtomic: moved.amountAtomic,
      block: Number(quantity(receipt.blockNumber)),
      atMs,
    }
  })
  return { status: 'found', transfers }
}

type PlacedLog = LogEntry & { readonly at: number }

const isOf = (use: PlacedLog, payerWord: string): boolean =>
  use.topics[1]?.slice(2).toLowerCase() === payerWord && use.topics[2] !== undefined

/** @throws {RpcUnreachable} for an event that is not one of the token's */
function placeOf({ logIndex, address, topics: words, data }: LogEntry): number {
  if (typeof address !== 'string' || !Array.isArray(words) || typeof data !== 'string')
    throw new RpcUnreachable('the node answered something else than an event where one was expected')
  return Number(quantity(logIndex))
}
