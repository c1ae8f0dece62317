import type { Asset } from '../../../core/domain/asset.ts'
import { reading, token, wordOf } from '../../../core/evm/token.ts'
import type { Rpc } from '../../../core/rpc/rpc.ts'
import { domainSeparator } from './check/authorization.ts'
import type { EvmSettlerOptions } from './options.ts'
import type { Head, HeadCache } from './rpc/head.ts'
import { leastFee } from './settle/fees.ts'

/** Fewer payments than this that the account could still pay for are reported. */
const lowPayments = 20n

export interface DiagnoseParts {
  readonly options: Required<EvmSettlerOptions>
  readonly rpc: Rpc
  readonly heads: HeadCache
}

/** What is wrong with a network's settlement, in words for its operator; empty when all is well. */
export async function diagnoseEvm({ options, rpc, heads }: DiagnoseParts): Promise<string[]> {
  const { network, assets } = options
  try {
    const head = await heads.fresh()
    const words = [...staleness(head, options), ...funding(head, options)]
    for (const asset of assets) {
      if (asset.network === network) words.push(...(await tokenFaults(rpc, asset)))
    }
    return words
  } catch (error) {
    return [`${network}: ${error instanceof Error ? error.message : 'the nodes can not be asked'}`]
  }
}

function staleness(head: Head, { network, clock, staleHeadMs }: Required<EvmSettlerOptions>): string[] {
  const ageMs = clock.now() - head.timestamp * 1000
  if (ageMs <= staleHeadMs) return []
  return [
    `${network}: the node's newest block is ${Math.round(ageMs / 1000)} s old; it is behind or the clock is wrong.`,
  ]
}

function funding(head: Head, options: Required<EvmSettlerOptions>): string[] {
  const { network } = options
  if (head.baseFee > options.maxFeePerGasWei) {
    return [`${network}: gas costs ${head.baseFee} wei now, above maxFeePerGas; no payment can be settled.`]
  }
  const payments = paymentsAhead(head, options)
  if (payments >= lowPayments) return []
  return [
    `${network}: the settling account can pay the fees of ${payments} more payments at most; send it some ether.`,
  ]
}

/** How many settlements the account pays for, each at the least that it is signed for now. */
export const paymentsAhead = (head: Head, options: Required<EvmSettlerOptions>): bigint =>
  head.balance / (BigInt(options.maxGas) * leastFee(head, options))

async function tokenFaults(rpc: Rpc, asset: Asset): Promise<string[]> {
  const { network, address, decimals, eip712 } = asset
  const name = `${network}: token ${asset.symbol} at ${address}`
  if (eip712 === undefined) return [`${name} has no eip712 name and version configured.`]
  const [separator, digits] = await rpc.batch([
    reading(token.domainSeparator(address)),
    reading(token.decimals(address)),
  ])
  const found = separator?.ok ? wordOf(separator.result) : undefined
  if (found === undefined) return [`${name} is no contract with an EIP-712 domain.`]
  const chainId = Number(network.slice('eip155:'.length))
  const expected = domainSeparator({ ...eip712, chainId, verifyingContract: address })
  const faults: string[] = []
  if (found !== BigInt(`0x${Buffer.from(expected).toString('hex')}`)) {
    faults.push(
      `${name} signs with another EIP-712 domain than name "${eip712.name}", version "${eip712.version}".`,
    )
  }
  const actual = digits?.ok ? wordOf(digits.result) : undefined
  if (actual !== BigInt(decimals))
    faults.push(`${name} has ${actual ?? 'no'} decimals, expected ${decimals}.`)
  return faults
}
