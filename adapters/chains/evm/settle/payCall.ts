import { decode } from 'ox/AbiParameters'
import type { EvmCall } from '../../../../core/evm/token.ts'
import { addressWord, bytesWords, uintWord } from '../../../../core/evm/words.ts'
import type { Authorization } from '../check/authorization.ts'
import type { Hex } from '../rpc/hex.ts'
import { aggregate3 } from './multicall.ts'

/** A wallet that has to be made first (ERC-6492): the factory and what it is told. */
export interface WalletDeployment {
  readonly factory: string
  readonly calldata: string
  /** The signature that the wallet itself will be asked about. */
  readonly innerSignature: string
}

const erc6492Suffix = '6492'.repeat(16)

/**
 * Reads the ERC-6492 wrapping of a signature: abi.encode(factory, calldata, signature) and 32 bytes of suffix.
 *
 * @returns undefined when it is not wrapped, or wrapped so badly that it can't be read
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
 * The call that moves the money: `transferWithAuthorization` of the token. For a wallet that is not there yet it is one
 * Multicall3 call that makes the wallet and then transfers. So a deployment never stands half way between two
 * transactions, and the factory's code runs with Multicall3 as its caller, not with the settling account.
 *
 * @param deployment undefined when the payer's account is used as it stands
 */
export function payCall(
  token: string,
  authorization: Authorization,
  deployment: WalletDeployment | undefined,
): EvmCall {
  if (deployment === undefined)
    return { to: token, data: transferData(authorization, authorization.signature) }
  return aggregate3([
    // The factory may fail: somebody else can have made the wallet in the meantime.
    { to: deployment.factory, data: deployment.calldata },
    { to: token, data: transferData(authorization, deployment.innerSignature), mustSucceed: true },
  ])
}

/** transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32): EIP-3009. */
const selectorOfParts = '0xe3ee160e'
/** transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes): contract wallets, FiatToken 2.2. */
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
    // r, s, v of the signature become v, r, s of the call.
    return selectorOfParts + terms + bytes.slice(128).padStart(64, '0') + bytes.slice(0, 128)
  }
  return selectorOfBytes + terms + uintWord('224') + bytesWords(signature)
}

/** The authorisation in the data of a call that {@link payCall} made; undefined where the call is none. */
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
