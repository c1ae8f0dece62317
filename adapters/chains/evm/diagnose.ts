import type { Asset } from '../../../core/domain/asset.ts'
import { reading, token, wordOf } from '../../../core/evm/token.ts'
import type { Rpc } from '../../../core/rpc/rpc.ts'
import { domainSeparator } from './check/authorization.ts'
import type { EvmSettlerOptions } from './options.ts'
import type { Head } from './rpc/head.ts'
import type { EvmKey } from './settle/evmKey.ts'
import { paymentsAhead } from './settle/fees.ts'

/** Fewer payments than this that the account could still pay for are reported. */
const lowPayments = 20n

export interface DiagnoseParts {
  readonly options: Required<EvmSettlerOptions>
  readonly rpc: Rpc
  readonly keys: readonly EvmKey[]
}

/** What is wrong with a network's settlement, in words for its operator; empty when all is well. */
export async function diagnoseEvm({ options, rpc, keys }: DiagnoseParts): Promise<string[]> {
  const { network, assets } = options
  try {
    const heads = await Promise.all(keys.map((key) => key.heads.fresh()))
    const words = [...staleness(heads[0]!, options), ...funding(heads, keys, options)]
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

function funding(
  heads: readonly Head[],
  keys: readonly EvmKey[],
  options: Required<EvmSettlerOptions>,
): string[] {
  const { network } = options
  const { baseFee } = heads[0]!
  if (baseFee > options.maxFeePerGasWei) {
    return [`${network}: gas costs ${baseFee} wei now, above maxFeePerGas; no payment can be settled.`]
  }
  return heads.flatMap((head, i) => {
    const payments = paymentsAhead(head, options)
    if (payments >= lowPayments) return []
    return `${network}: the settling account ${keys[i]!.account.address} can pay the fees of ${payments} more payments at most; send it some ether.`
  })
}

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
