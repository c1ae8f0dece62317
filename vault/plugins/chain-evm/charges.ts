import { isPermit2Nonce, isUsedIn, permit2 } from '../../../core/evm/permit2.ts'
import { reading, token, wordOf } from '../../../core/evm/token.ts'
import { RpcUnreachable } from '../../../core/rpc/post.ts'
import type { Rpc } from '../../../core/rpc/rpc.ts'
import { isObject } from '../../../core/x402/strictJson.ts'
import type { FinalBlock, OpenClaim, PaymentClaim, ProvedCharge } from '../../effects/payment.ts'
import { chargesByTransfers, hex, wholeNumber } from './chargedTransfers.ts'

/** Maximum searches through past blocks in one check. Each takes a few requests, and the others follow in the next check. */
const MAX_SEARCHES = 20

/**
 * The newest final block. On Ethereum and its rollups, a block with this tag is reorganized only if Ethereum's validators lose their
 * stake. A block with the tag `safe` can still be reorganized, and a number of confirmations proves nothing on a rollup, whose
 * sequencer can replace all blocks that it has not written to Ethereum yet. It is 13 to 25 minutes old.
 *
 * @throws {RpcRefused} {RpcUnreachable} also on a chain without final blocks
 */
export async function finalBlock(rpc: Rpc): Promise<FinalBlock> {
  const block = await rpc.call('eth_getBlockByNumber', 'finalized', false)
  if (!isObject(block)) throw new RpcUnreachable('the node names no final block')
  return { number: wholeNumber(block['number']), seconds: wholeNumber(block['timestamp']) }
}

/**
 * Proves what payments have cost, as of a final block. If a payment has expired by then and its nonce is unused, it costs nothing. If the
 * nonce of a payment by `upto` is used, it cannot be charged again, and the transfers to its payee show what it cost. A payment of an
 * exact amount whose nonce is used counts as charged.
 */
export async function proveCharges(
  rpc: Rpc,
  claims: readonly OpenClaim[],
  final: FinalBlock,
): Promise<(ProvedCharge | undefined)[]> {
  const isExpired = ({ validBefore }: PaymentClaim) => BigInt(final.seconds) > BigInt(validBefore)
  const proved = new Array<ProvedCharge | undefined>(claims.length).fill(undefined)
  // Before an exact payment expires, its nonce proves nothing that lowers its cost.
  const asked = claims.flatMap((open, at) =>
    open.claim.facilitator !== null || isExpired(open.claim) ? [{ ...open, at }] : [],
  )
  const block = hex(final.number)
  const responses = await rpc.many(asked.map(({ claim }) => reading(nonceCall(claim), block)))
  const charged: (typeof asked)[number][] = []
  for (const [i, one] of asked.entries()) {
    const response = responses[i]!
    const word = response.ok ? wordOf(response.result) : undefined
    if (word === undefined) continue
    const { claim, at } = one
    if (isUsed(word, claim)) {
      if (claim.facilitator === null) proved[at] = { charged: BigInt(claim.most), transaction: null }
      else charged.push(one)
    } else if (isExpired(claim)) proved[at] = { charged: 0n, transaction: null }
  }
  // The order is random, so that searches that fail again and again do not hold up the others.
  const searches = [...Map.groupBy(charged, ({ claim }) => pathOf(claim)).values()]
    .map((group) => ({ group, order: Math.random() }))
    .sort((a, b) => a.order - b.order)
    .slice(0, MAX_SEARCHES)
  for (const { group } of searches) {
    const found = await chargesByTransfers(rpc, group, final)
    for (const [i, { at }] of group.entries()) proved[at] = found?.[i]
  }
  return proved
}

const nonceCall = ({ asset, payer, nonce }: PaymentClaim) =>
  isPermit2Nonce(nonce) ? permit2.nonceBitmap(payer, nonce) : token.authorizationState(asset, payer, nonce)

const isUsed = (word: bigint, { nonce }: PaymentClaim): boolean =>
  isPermit2Nonce(nonce) ? isUsedIn(word, nonce) : word !== 0n

/** Payments with the same path are found by one search. */
const pathOf = ({ asset, payer, payTo }: PaymentClaim): string => `${asset} ${payer} ${payTo}`.toLowerCase()
