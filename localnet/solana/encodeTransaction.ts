import { base58 } from '@scure/base'
import type { VersionedMessage } from '@solana/web3.js'
import { type DecimalsOf, encodeTokenAmount } from './encodeAccount.ts'
import type { Execution, Landed, TokenBalance } from './ledger.ts'
import { INVALID_PARAMS, RpcError, UNSUPPORTED_TRANSACTION_VERSION } from './rpcError.ts'

/** The form in which a transaction is requested. */
export type TransactionConfig = { encoding?: string; maxSupportedTransactionVersion?: number }

/**
 * A transaction in the form of `getTransaction`. With `jsonParsed`, the instructions stay partially decoded, as a node leaves them
 * for programs that it cannot parse.
 *
 * @throws {RpcError} if the request does not support the transaction's version
 */
export function encodeLanded(landed: Landed, config: TransactionConfig, decimalsOf: DecimalsOf) {
  const { transaction } = landed
  const { encoding = 'json', maxSupportedTransactionVersion } = config
  if (transaction.version === 0 && maxSupportedTransactionVersion === undefined) {
    throw new RpcError(
      UNSUPPORTED_TRANSACTION_VERSION,
      'Transaction version (0) is not supported by the requesting client. Please try the request again with the ' +
        'following configuration parameter: "maxSupportedTransactionVersion": 0',
    )
  }
  return {
    slot: landed.slot,
    blockTime: landed.blockTime,
    transaction: encodeBody(landed, encoding),
    meta: encodeMeta(landed, decimalsOf),
    ...(maxSupportedTransactionVersion === undefined ? {} : { version: transaction.version }),
  }
}

/** Inner instructions, in the form for a simulation and for a landed transaction. */
export function encodeInnerInstructions(groups: Execution['innerInstructions']) {
  return groups.flatMap((group, index) => {
    if (group.length === 0) return []
    const instructions = group.map((inner) => {
      const instruction = inner.instruction()
      return {
        programIdIndex: instruction.programIdIndex(),
        accounts: [...instruction.accounts()],
        data: base58.encode(Uint8Array.from(instruction.data())),
        stackHeight: inner.stackHeight(),
      }
    })
    return [{ index, instructions }]
  })
}

function encodeBody(landed: Landed, encoding: string): unknown {
  const { transaction } = landed
  const signatures = transaction.signatures.map((signature) => base58.encode(signature))
  switch (encoding) {
    case 'base64':
      return [Buffer.from(transaction.bytes).toString('base64'), encoding]
    case 'base58':
      return [base58.encode(transaction.bytes), encoding]
    case 'json':
      return { signatures, message: encodeMessage(transaction.message) }
    case 'jsonParsed':
      return { signatures, message: encodeParsedMessage(landed) }
    default:
      throw new RpcError(INVALID_PARAMS, `Invalid params: unknown variant \`${encoding}\`.`)
  }
}

function encodeMessage(message: VersionedMessage) {
  return {
    header: message.header,
    accountKeys: message.staticAccountKeys.map((key) => key.toBase58()),
    recentBlockhash: message.recentBlockhash,
    instructions: message.compiledInstructions.map((instruction) => ({
      programIdIndex: instruction.programIdIndex,
      accounts: instruction.accountKeyIndexes,
      data: base58.encode(instruction.data),
      stackHeight: null,
    })),
    ...(message.version === 0 ? { addressTableLookups: encodeLookups(message) } : {}),
  }
}

function encodeParsedMessage({ transaction: { message }, keys, loaded }: Landed) {
  const loadedFrom = message.staticAccountKeys.length
  const writableLoadedUntil = loadedFrom + loaded.writable.length
  return {
    accountKeys: keys.map((pubkey, index) => ({
      pubkey,
      signer: index < message.header.numRequiredSignatures,
      source: index < loadedFrom ? 'transaction' : 'lookupTable',
      writable: index < loadedFrom ? message.isAccountWritable(index) : index < writableLoadedUntil,
    })),
    recentBlockhash: message.recentBlockhash,
    instructions: message.compiledInstructions.map((instruction) => ({
      programId: keys[instruction.programIdIndex],
      accounts: instruction.accountKeyIndexes.map((index) => keys[index]),
      data: base58.encode(instruction.data),
      stackHeight: null,
    })),
    ...(message.version === 0 ? { addressTableLookups: encodeLookups(message) } : {}),
  }
}

function encodeLookups(message: VersionedMessage) {
  return message.addressTableLookups.map((lookup) => ({
    accountKey: lookup.accountKey.toBase58(),
    writableIndexes: lookup.writableIndexes,
    readonlyIndexes: lookup.readonlyIndexes,
  }))
}

function encodeMeta(landed: Landed, decimalsOf: DecimalsOf) {
  const { error, returnData } = landed
  const encodeTokenBalance = (balance: TokenBalance) => ({
    accountIndex: balance.accountIndex,
    mint: balance.mint,
    owner: balance.owner,
    programId: balance.programId,
    uiTokenAmount: encodeTokenAmount(balance.amount, decimalsOf(balance.mint)),
  })
  return {
    err: error,
    status: error === null ? { Ok: null } : { Err: error },
    fee: Number(landed.fee),
    preBalances: landed.preBalances.map(Number),
    postBalances: landed.postBalances.map(Number),
    preTokenBalances: landed.preTokenBalances.map(encodeTokenBalance),
    postTokenBalances: landed.postTokenBalances.map(encodeTokenBalance),
    innerInstructions: encodeInnerInstructions(landed.innerInstructions),
    logMessages: landed.logs,
    loadedAddresses: landed.loaded,
    computeUnitsConsumed: Number(landed.unitsConsumed),
    rewards: [],
    ...(returnData === null
      ? {}
      : {
          returnData: {
            programId: returnData.programId,
            data: [Buffer.from(returnData.data).toString('base64'), 'base64'],
          },
        }),
  }
}
