import { LRUCache } from 'lru-cache'
import { decode } from 'ox/AbiParameters'
import { permit2Address, readSettleCall, settleCall } from '../../../../core/evm/permit2.ts'
import { addressWord, bytesWords, type EvmCall, uintWord } from '../../../../core/evm/token.ts'
import type { Hex } from '../rpc/nodes.ts'
import { aggregate3, callsIn, multicall3 } from '../settle/multicall.ts'
import { callOf } from '../settle/transaction.ts'
import type { Authorization } from './authorization.ts'

/** A wallet that has to be deployed first (ERC-6492): the factory and its call data. */
export interface WalletDeployment {
  readonly factory: string
  readonly calldata: string
  /** The signature that the deployed wallet will check. */
  readonly innerSignature: string
}

const erc6492Suffix = '6492'.repeat(16)

/**
 * Reads the ERC-6492 wrapping of a signature: abi.encode(factory, calldata, signature) and 32 bytes of suffix.
 *
 * @returns undefined when the signature is not wrapped, or cannot be decoded
 * @see https://eips.ethereum.org/EIPS/eip-6492
 */
export function readDeployment(signature: string): WalletDeployment | undefined {
  if (!signature.endsWith(erc6492Suffix)) return undefined
  try {
    const body = signature.slice(0, -erc6492Suffix.length) as Hex
    const [factory, calldata, inner] = decode(
      [{ type: 'address' }, { type: 'bytes' }, { type: 'bytes' }],
      body,
    )
    return { factory: factory.toLowerCase(), calldata, innerSignature: inner }
  } catch {
    return undefined
  }
}

/**
 * The call that moves the money, `transferWithAuthorization` of the token, or `settle` of a proxy of Permit2. For a wallet that is not deployed yet, it is one
 * Multicall3 call that deploys the wallet and then transfers. So a deployment without its transfer cannot happen, and the caller of
 * the factory is Multicall3, not the settling account.
 *
 * @param deployment undefined if the payer's account needs no deployment
 * @param amountAtomic the amount to charge, for a payment by `upto`
 */
export function payCall(
  token: string,
  authorization: Authorization,
  deployment: WalletDeployment | undefined,
  amountAtomic = BigInt(authorization.value),
): EvmCall {
  const { permit2: part } = authorization
  if (part !== undefined) return settleCall({ ...authorization, ...part }, amountAtomic)
  if (deployment === undefined)
    return { to: token, data: transferData(authorization, authorization.signature) }
  return aggregate3([
    // The factory call may fail, because the wallet may have been deployed in the meantime.
    { to: deployment.factory, data: deployment.calldata },
    { to: token, data: transferData(authorization, deployment.innerSignature), mustSucceed: true },
  ])
}

/** Selector of transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32), from EIP-3009. */
const selectorOfParts = '0xe3ee160e'
/**
 * Selector of transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes), for contract wallets, from
 * FiatToken 2.2.
 */
const selectorOfBytes = '0xcf092995'

function transferData(authorization: Authorization, signature: string): string {
  const terms =
    addressWord(authorization.from) +
    addressWord(authorization.to) +
    uintWord(authorization.value) +
    uintWord(authorization.validAfter) +
    uintWord(authorization.validBefore) +
    authorization.nonce.slice(2)
  const bytes = signature.slice(2)
  if (bytes.length === 130) {
    // The signature has the order r, s, v; the call has v, r, s.
    return selectorOfParts + terms + bytes.slice(128).padStart(64, '0') + bytes.slice(0, 128)
  }
  return selectorOfBytes + terms + uintWord('224') + bytesWords(signature)
}

/** The authorization of EIP-3009 in data that {@link payCall} made, or undefined for other data. */
export function readTransfer(
  data: string,
): { readonly from: string; readonly nonce: string; readonly validBeforeMs: number } | undefined {
  if (!data.startsWith(selectorOfParts) && !data.startsWith(selectorOfBytes)) return undefined
  const wordAt = (i: number) => data.slice(10 + 64 * i, 10 + 64 * (i + 1)).toLowerCase()
  return {
    from: `0x${wordAt(0).slice(24)}`,
    nonce: `0x${wordAt(5)}`,
    validBeforeMs: Number(BigInt(`0x${wordAt(4)}`)) * 1_000,
  }
}

/** A transfer that a transaction would make. */
interface TransferInside {
  /** The contract that has the nonce, which is the token or Permit2. Lower case, as are `from` and `nonce`. */
  readonly contract: string
  readonly from: string
  readonly nonce: string
  /** Chain time from which the transfer is refused, in ms. */
  readonly validBeforeMs: number
}

/**
 * The transfers by authorization that signed bytes would make. The bytes of one payment have one transfer, with or without the
 * deployment of its wallet. The bytes of a batch have several. Other bytes have none.
 */
export function transfersIn(bytes: string): readonly TransferInside[] {
  if (bytes === '') return []
  let inside = known.get(bytes)
  if (inside === undefined) known.set(bytes, (inside = readTransfers(bytes)))
  return inside
}

/** Cached because the payments of one transaction request the same result one after the other. */
const known = new LRUCache<string, readonly TransferInside[]>({ max: 64 })

function readTransfers(bytes: string): readonly TransferInside[] {
  try {
    const call = callOf(bytes)
    const calls = call.to === multicall3 ? callsIn(call.data) : [call]
    return calls.flatMap((one): TransferInside[] => {
      const permit = readSettleCall(one)
      if (permit !== undefined) {
        const { from, nonce, validBefore } = permit
        return [{ contract: permit2Address, from, nonce, validBeforeMs: (Number(validBefore) + 1) * 1_000 }]
      }
      const transfer = readTransfer(one.data)
      return transfer === undefined ? [] : [{ contract: one.to, ...transfer }]
    })
  } catch {
    return []
  }
}
