import { createPublicKey, verify } from 'node:crypto'
import { once } from 'node:events'
import { secp256k1 } from '@noble/curves/secp256k1'
import { keccak_256 } from '@noble/hashes/sha3.js'
import fc from 'fast-check'
import t from 'tap'
import {
  hashDomain,
  hashMessage,
  hashStruct,
  hashTypedData,
  keccak256,
  recoverAddress,
  serializeTransaction,
} from 'viem'
import { proof, seedRecord, startSigner, type Teardown } from '../../test/helpers/vault/signing.ts'
import { readVectors, type Wycheproof } from '../../test/helpers/vectors.ts'
import { ed25519Key, ed25519PublicKey, ed25519Sign, loadNative, loadNoble } from '../keys/curves.ts'
import { evmAddress } from '../keys/vaultKeyring.ts'
import type { SignKind } from '../ports/signer.ts'
import { evmDigest } from './keyStore.ts'
import {
  createFrameReader,
  describeFrame,
  fromChild,
  proofFields,
  requestFrame,
  signFrame,
  toChild,
  u32,
} from './protocol.ts'
import { spawnChild } from './signingProcess.ts'

const halfOrder = secp256k1.CURVE.n / 2n

/** The child process alone, with the vault's protocol and without the vault's own checks. */
async function startChild(t: Teardown) {
  const child = spawnChild()
  const gone = once(child, 'close')
  t.teardown(async () => {
    child.stdin!.end()
    await gone
  })
  const responses = new Map<number, (response: { status: number; bytes: Buffer }) => void>()
  child.stdout!.on(
    'data',
    createFrameReader((body) => {
      const response = { status: body.readUInt8(4), bytes: Buffer.from(body.subarray(5)) }
      responses.get(body.readUInt32BE())?.(response)
    }),
  )
  let requests = 0
  const send = (frame: (request: number) => Buffer) =>
    new Promise<{ status: number; bytes: Buffer }>((answered) => {
      responses.set(++requests, answered)
      child.stdin!.write(frame(requests))
    })
  await send((request) => requestFrame(toChild.open, request, proofFields(proof)))
  const { id, version, sealed } = seedRecord
  await send((request) => requestFrame(toChild.load, request, [id, u32(version), sealed]))
  return {
    ask: (kind: SignKind, keyId: string, bytes: Uint8Array) =>
      send((request) => signFrame(request, kind, keyId, bytes)),
    publicKey: async (keyId: string) => (await send((request) => describeFrame(request, keyId))).bytes,
  }
}

const transaction = serializeTransaction({
  type: 'eip1559',
  chainId: 8453,
  to: `0x${'11'.repeat(20)}`,
  value: 5n,
  nonce: 3,
})

const legacy = serializeTransaction({
  type: 'legacy',
  chainId: 1,
  to: `0x${'11'.repeat(20)}`,
  value: 5n,
  gas: 21_000n,
})

const bytesOf = (hex: string) => Buffer.from(hex.slice(2), 'hex')

/** The signer of a digest according to viem. */
function signerOf(digest: `0x${string}`, signature: Buffer): Promise<string> {
  const hex = signature.subarray(0, 64).toString('hex')
  return recoverAddress({ hash: digest, signature: `0x${hex}${signature[64] === 0 ? '1b' : '1c'}` })
}

t.test('each kind of EVM bytes is signed as other libraries hash it, with s in the lower half', async (t) => {
  const { signer, sign } = await startSigner(t)
  const address = evmAddress(await signer.publicKey('evm:0'))
  const low = (signature: Buffer) => BigInt(`0x${signature.toString('hex', 32, 64)}`) <= halfOrder
  for (const tx of [transaction, legacy]) {
    const signature = await sign('evm-transaction', bytesOf(tx))
    t.equal(await signerOf(keccak256(tx), signature), address)
    t.ok(low(signature))
  }
  for (const text of ['', 'hello', 'ü'.repeat(300)]) {
    const signature = await sign('evm-message', Buffer.from(text))
    t.equal(await signerOf(hashMessage({ raw: Buffer.from(text) }), signature), address)
    t.ok(low(signature))
  }
  const domain = { name: 'Shop', chainId: 8453n } as const
  const types = {
    EIP712Domain: [
      { name: 'name', type: 'string' },
      { name: 'chainId', type: 'uint256' },
    ],
    Order: [{ name: 'id', type: 'uint256' }],
  } as const
  const order = { domain, types, primaryType: 'Order', message: { id: 7n } } as const
  const parts = [
    hashDomain({ domain, types }),
    hashStruct({ data: order.message, primaryType: 'Order', types }),
  ]
  const preimage = Buffer.concat([Uint8Array.of(0x19, 0x01), ...parts.map(bytesOf)])
  t.equal(await signerOf(hashTypedData(order), await sign('evm-typed-data', preimage)), address)
  t.strictSame(await signer.publicKey('import:hot'), loadNoble().publicKey(Buffer.alloc(32, 7)))
})

/** A Solana message with these keys as its accounts; the first `signers` of them sign, the last is the program. */
function solanaMessage(keys: readonly Uint8Array[], signers = 1, version: number[] = []): Buffer {
  const instruction = [keys.length - 1, 1, 0, 2, 7, 7]
  const tail = version.length === 0 ? [] : [0]
  return Buffer.concat([
    Uint8Array.of(...version, signers, 0, 1, keys.length),
    ...keys,
    Buffer.alloc(32, 5),
    Uint8Array.of(1, ...instruction, ...tail),
  ])
}

const otherKey = Buffer.alloc(32, 1)

const programKey = Buffer.alloc(32, 2)

t.test('Solana bytes are signed as they are', async (t) => {
  const { signer, sign } = await startSigner(t)
  const publicKey = await signer.publicKey('solana:0')
  const key = createPublicKey({
    key: Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), publicKey]),
    format: 'der',
    type: 'spki',
  })
  const signed: [SignKind, Buffer][] = [
    ['solana-transaction', solanaMessage([publicKey, programKey])],
    ['solana-transaction', solanaMessage([otherKey, publicKey, programKey], 2, [0x80])],
    ['solana-message', Buffer.from('some bytes that are a text')],
    ['solana-message', Buffer.from('\xffsolana offchain', 'latin1')],
  ]
  for (const [kind, bytes] of signed) t.ok(verify(null, bytes, key, await sign(kind, bytes)))
})

t.test('bytes of one kind are not signed as another, nor by a key of the other family', async (t) => {
  const { sign } = await startSigner(t)
  const typed = Buffer.concat([Uint8Array.of(0x19, 0x01), Buffer.alloc(64, 1)])
  const setCode = Buffer.concat([Uint8Array.of(4), bytesOf(transaction).subarray(1)])
  const refused: [SignKind, Uint8Array, string?][] = [
    ['evm-transaction', Buffer.from('hello')],
    ['evm-transaction', new Uint8Array(0)],
    ['evm-transaction', typed],
    ['evm-transaction', setCode],
    ['evm-transaction', Buffer.concat([bytesOf(transaction), Uint8Array.of(0)])],
    ['evm-transaction', bytesOf(transaction).subarray(0, -1)],
    ['evm-typed-data', typed.subarray(1)],
    ['evm-typed-data', bytesOf(transaction)],
    ['evm-typed-data', Buffer.alloc(32)],
    ['solana-transaction', new Uint8Array(0)],
    ['solana-transaction', Buffer.from('x'), 'evm:0'],
    ['evm-message', Buffer.from('x'), 'solana:0'],
  ]
  for (const [kind, bytes, keyId] of refused)
    await t.rejects(sign(kind, bytes, keyId), { code: 'INVALID_TX' })
  await t.rejects(sign('evm-message', Buffer.from('x'), 'import:none'), { code: 'KEY_UNKNOWN' })
  await t.rejects(sign('evm-message', Buffer.from('x'), 'evm:x'), { code: 'KEY_UNKNOWN' })
  await t.rejects(sign('digest' as SignKind, Buffer.alloc(32), 'evm:0'), { code: 'VALIDATION_ERROR' })
  await t.rejects(sign('evm-message', Buffer.alloc(600_000)), { code: 'INVALID_TX' })
})

t.test('the child itself refuses what the host refuses', async (t) => {
  const { ask, publicKey } = await startChild(t)
  const ours = await publicKey('solana:0')
  const to = `0x${'11'.repeat(20)}` as const
  const fee = { chainId: 1, to, maxFeePerGas: 1n }
  const blobs = serializeTransaction({
    ...fee,
    type: 'eip4844',
    maxFeePerBlobGas: 1n,
    blobVersionedHashes: [`0x01${'00'.repeat(31)}`],
  })
  const delegation = { chainId: 1, address: to, nonce: 0, r: '0x1', s: '0x1', yParity: 0 } as const
  const setCode = serializeTransaction({ ...fee, type: 'eip7702', authorizationList: [delegation] })
  const signature = { r: `0x${'11'.repeat(32)}`, s: `0x${'22'.repeat(32)}`, yParity: 0 } as const
  const signed = serializeTransaction({ ...fee, type: 'eip1559' }, signature)
  const retyped = (type: number) => Buffer.concat([Uint8Array.of(type), bytesOf(transaction).subarray(1)])
  const oursAlone = solanaMessage([ours, programKey])
  const wire = Buffer.concat([Uint8Array.of(1), Buffer.alloc(64), oursAlone])
  const refused: Record<string, [SignKind, string, Uint8Array]> = {
    'a transaction with blobs': ['evm-transaction', 'evm:0', bytesOf(blobs)],
    'a transaction that gives the code away': ['evm-transaction', 'evm:0', bytesOf(setCode)],
    'a type nobody knows': ['evm-transaction', 'evm:0', retyped(5)],
    'another type over the same fields': ['evm-transaction', 'evm:0', retyped(1)],
    'type 3 over the fields of type 2': ['evm-transaction', 'evm:0', retyped(3)],
    'a signed transaction': ['evm-transaction', 'evm:0', bytesOf(signed)],
    'a list that is no transaction': ['evm-transaction', 'evm:0', Uint8Array.of(0xc3, 1, 2, 3)],
    'a transaction as a text': ['evm-message', 'evm:0', bytesOf(transaction)],
    'a legacy transaction as a text': ['evm-message', 'evm:0', bytesOf(legacy)],
    'blobs as a text': ['evm-message', 'evm:0', bytesOf(blobs)],
    'what can be a hash': ['evm-message', 'evm:0', Buffer.alloc(32, 0xab)],
    'what can be a hash but for its last byte': ['evm-message', 'evm:0', Buffer.from(`${'a'.repeat(31)}\0`)],
    'typed data as a text': [
      'evm-message',
      'evm:0',
      Buffer.concat([Uint8Array.of(0x19, 1), Buffer.alloc(64)]),
    ],
    'bytes that are no Solana message': [
      'solana-transaction',
      'solana:0',
      Buffer.from('no transaction at all'),
    ],
    'a Solana message with a byte too many': [
      'solana-transaction',
      'solana:0',
      Buffer.concat([oursAlone, Buffer.alloc(1)]),
    ],
    'a message of version 1': [
      'solana-transaction',
      'solana:0',
      solanaMessage([ours, programKey], 1, [0x81]),
    ],
    'a transaction that others sign': [
      'solana-transaction',
      'solana:0',
      solanaMessage([otherKey, ours, programKey]),
    ],
    'a Solana message as a text': ['solana-message', 'solana:0', oursAlone],
    'one of version 0 as a text': [
      'solana-message',
      'solana:0',
      solanaMessage([ours, programKey], 1, [0x80]),
    ],
    'a whole Solana transaction as a text': ['solana-message', 'solana:0', wire],
    'what a later version could be': ['solana-message', 'solana:0', Buffer.from([0xbf, 1, 2, 3])],
    'a kind that there is not': [undefined as unknown as SignKind, 'evm:0', Buffer.from('text')],
  }
  for (const [what, [kind, keyId, bytes]] of Object.entries(refused))
    t.equal((await ask(kind, keyId, bytes)).status, fromChild.wrongKind, what)
  const taken: [SignKind, string, Uint8Array][] = [
    [
      'evm-transaction',
      'evm:0',
      bytesOf(serializeTransaction({ chainId: 1, type: 'eip2930', to, gasPrice: 1n })),
    ],
    ['evm-transaction', 'evm:0', bytesOf(serializeTransaction({ type: 'legacy', to, gasPrice: 1n }))],
    ['evm-message', 'evm:0', Buffer.from('a text')],
    ['evm-message', 'evm:0', Buffer.from('a text as long as a hash is, é.')],
    ['evm-message', 'evm:0', Buffer.from('ƀabcde')],
    ['solana-transaction', 'solana:0', oursAlone],
  ]
  for (const [kind, keyId, bytes] of taken)
    t.equal((await ask(kind, keyId, bytes)).status, fromChild.done, 'and it still signs')
})

t.test('no preimage of one EVM kind is one of another', async () => {
  const kinds = ['evm-transaction', 'evm-typed-data'] as const
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
      const taken = kinds.filter((kind) => evmDigest(kind, bytes) !== undefined)
      const prefixed = Buffer.from(`\x19Ethereum Signed Message:\n${bytes.length}`, 'latin1')
      const message = evmDigest('evm-message', bytes)
      const asText = Buffer.from(keccak_256(Buffer.concat([prefixed, bytes])))
      return (
        taken.length <= 1 &&
        (message === undefined || asText.equals(message)) &&
        kinds.every((kind) => evmDigest(kind, Buffer.concat([prefixed, bytes])) === undefined)
      )
    }),
    { numRuns: 2_000 },
  )
})

t.test(
  'the bytes that were given are the bytes that are signed, whatever becomes of the buffer',
  async (t) => {
    const { signer, sign } = await startSigner(t)
    const bytes = Buffer.from('frozen')
    const signing = sign('evm-message', bytes)
    bytes.write('melted')
    t.equal(await signerOf(hashMessage('frozen'), await signing), evmAddress(await signer.publicKey('evm:0')))
  },
)

interface EddsaGroup {
  readonly publicKey: { readonly pk: string; readonly sk?: string }
  readonly tests: readonly {
    readonly tcId: number
    readonly msg: string
    readonly sig: string
    readonly result: string
  }[]
}

t.test('Ed25519 accepts and refuses every Wycheproof signature as it must', async (t) => {
  const vectors = readVectors<Wycheproof<EddsaGroup>>('wycheproof_ed25519.json.gz')
  if (vectors === undefined) return t.pass('not tried', { skip: 'the shared vectors are not here' })
  for (const { publicKey, tests } of vectors.testGroups) {
    const der = Buffer.from(`302a300506032b6570032100${publicKey.pk}`, 'hex')
    const key = createPublicKey({ key: der, format: 'der', type: 'spki' })
    for (const { tcId, msg, sig, result } of tests) {
      const isGood = verify(null, Buffer.from(msg, 'hex'), key, Buffer.from(sig, 'hex'))
      t.equal(isGood, result === 'valid', `case ${tcId}`)
    }
  }
})

t.test('both implementations of secp256k1 give the same signature, and it verifies', async () => {
  const [native, noble] = [loadNative(), loadNoble()]
  const key = fc.uint8Array({ minLength: 32, maxLength: 32 }).filter((bytes) => noble.isPrivateKey(bytes))
  fc.assert(
    fc.property(key, fc.uint8Array({ minLength: 32, maxLength: 32 }), (privateKey, digest) => {
      const signature = native.sign(digest, privateKey)
      const publicKey = native.publicKey(privateKey)
      return (
        signature.equals(noble.sign(digest, privateKey)) &&
        publicKey.equals(noble.publicKey(privateKey)) &&
        secp256k1.verify(signature.subarray(0, 64), digest, publicKey, { lowS: true })
      )
    }),
    { numRuns: 40 },
  )
})

t.test('an Ed25519 key signs so that its public half agrees, and twice the same', async () => {
  const key = fc.uint8Array({ minLength: 32, maxLength: 32 })
  fc.assert(
    fc.property(key, fc.uint8Array({ maxLength: 200 }), (privateKey, message) => {
      const own = ed25519Key(privateKey)
      const signature = ed25519Sign(own, message)
      return (
        ed25519PublicKey(own).length === 32 &&
        verify(null, message, createPublicKey(own), signature) &&
        signature.equals(ed25519Sign(own, message))
      )
    }),
  )
})
