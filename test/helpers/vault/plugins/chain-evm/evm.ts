import { secp256k1 } from '@noble/curves/secp256k1'
import { encodeFunctionData, parseAbi, serializeTransaction } from 'viem'
import { keccak256 } from '../../../../../core/evm/hex.ts'
import { pinnedAssets } from '../../../../../vault/effects/assets.ts'
import type { Decoded, DecodeResult } from '../../../../../vault/effects/effect.ts'
import plugin from '../../../../../vault/plugins/chain-evm/index.ts'

type Hex = `0x${string}`

/** A key for tests, and its address. */
export const privateKey = Buffer.from('01'.repeat(32), 'hex')
export const account = '0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1'
export const other = '0x5050A4F4b3f9338C3472dcC01A87C76A144b3c9c'
export const usdc = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913'
export const usdt = '0xfde4C96c8593536E31F229EA8f37b2ADa2699bb2'

export const abi = parseAbi([
  'function transfer(address to, uint256 amount)',
  'function transferFrom(address from, address to, uint256 amount)',
  'function approve(address spender, uint256 amount)',
  'function increaseAllowance(address spender, uint256 amount)',
  'function decreaseAllowance(address spender, uint256 amount)',
  'function setApprovalForAll(address operator, bool approved)',
  'function multicall(bytes[] calls)',
])

/** Calldata of a token call. */
export const call = (functionName: string, ...args: unknown[]): Hex =>
  encodeFunctionData({ abi, functionName, args } as Parameters<typeof encodeFunctionData>[0])

/** An unsigned EIP-1559 transaction on Base as 0x hex. */
export function unsigned(change: Record<string, unknown> = {}): Hex {
  return serializeTransaction({
    type: 'eip1559',
    chainId: 8453,
    nonce: 7,
    gas: 100_000n,
    maxFeePerGas: 1_000_000n,
    maxPriorityFeePerGas: 1_000n,
    to: usdc,
    data: call('transfer', other, 1_000_000n),
    ...change,
  } as Parameters<typeof serializeTransaction>[0])
}

export const decode = (unsignedTx: unknown): DecodeResult =>
  plugin.decodeTransaction({ chain: 'base', account, unsignedTx, assets: pinnedAssets })

/** Decodes what must be readable. */
export function decoded(result: DecodeResult): Decoded {
  if (!result.ok) throw new Error(`${result.code}: ${result.message}`)
  return result.decoded
}

/** What the signing process answers: r, s in the lower half, recovery. */
export function sign(preimage: Uint8Array, key: Uint8Array = privateKey): Uint8Array {
  const signature = secp256k1.sign(keccak256(preimage), key, { lowS: true })
  return Buffer.concat([signature.toCompactRawBytes(), Uint8Array.of(signature.recovery)])
}
