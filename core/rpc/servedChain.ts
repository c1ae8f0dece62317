import { familyOf, type NetworkId } from '../domain/network.ts'

/** Which chain a node has to serve. */
export interface ServedChain {
  /** Asks a node for it: `eth_chainId`, `getGenesisHash`. */
  readonly method: string
  /** What an honest answer reads as. */
  readonly expected: string
  readonly read: (answer: unknown) => string
}

/** How a node of this network says which chain it serves: by chain id on EVM, by the start of the genesis hash on Solana (CAIP-2). */
export function servedChain(network: NetworkId): ServedChain {
  const expected = network.slice(network.indexOf(':') + 1)
  if (familyOf(network) === 'solana')
    return { method: 'getGenesisHash', expected, read: (answer) => String(answer).slice(0, 32) }
  return { method: 'eth_chainId', expected, read: (answer) => String(Number(answer)) }
}
