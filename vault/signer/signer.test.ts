import { createPublicKey, verify } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
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
import { readVectors, type Wycheproof } from '../../test/helpers/vectors.ts'
import { openRecord, seal, sealRecord } from '../disk/aead.ts'
import { ed25519Key, ed25519PublicKey, ed25519Sign, loadNative, loadNoble } from '../keys/curves.ts'
import { evmAddress } from '../keys/vaultKeyring.ts'
import type { SignKind } from '../ports/signer.ts'
import type { SealedRecord } from './custodian.ts'
import { evmDigest } from './keyStore.ts'
import {
  createFrameReader,
  describeFrame,
  fromChild,
  type Proof,
  proofFields,
  requestFrame,
  signFrame,
  toChild,
  u32,
  unpackFields,
} from './protocol.ts'
import { OwnedSigner, SigningProcess, spawnChild } from './signingProcess.ts'

const seed = Buffer.alloc(64, 11)
const halfOrder = secp256k1.CURVE.n / 2n

const masterKey = Buffer.alloc(32, 3)
const passwordKey = Buffer.alloc(32, 4)
const vaultId = 'vlt_1'
const associated = Buffer.from('a header')
const proof: Proof = {
  vaultId,
  wrappedKey: seal(passwordKey, masterKey, associated),
  associated,
  passwordKey,
}
const wrongProof: Proof = { ...proof, passwordKey: Buffer.alloc(32, 5) }

/** The seed in its record: after entropy that the tests do not need. */
const seedRecord: SealedRecord = {
  id: 'seed',
  version: 1,
  sealed: sealRecord(
    masterKey,
    { vaultId, scope: 'key/seed', version: 1 },
    Buffer.concat([Uint8Array.of(16), Buffer.alloc(16, 9), seed]),
  ),
}

type Teardown = { teardown(end: () => Promise<void>): void }

/** A process that has the master key, the seed and an imported key. */
async function startProcess(t: Teardown): Promise<SigningProcess> {
  const process = new SigningProcess()
  t.teardown(() => process.end())
  await process.open(proof)
  await process.load(seedRecord)
  await process.importKey(proof, { id: 'import:hot', version: 1 }, 'evm', Buffer.alloc(32, 7))
  return process
}

async function startSigner(t: Teardown) {
  const lost: string[] = []
  const signer = new OwnedSigner({ beforeUse: () => {}, lost: () => lost.push('lost') })
  t.teardown(() => signer.stop())
  signer.start(await startProcess(t))
  let requests = 0
  const sign = async (
    kind: SignKind,
    bytes: Uint8Array,
    keyId = kind.startsWith('evm') ? 'evm:0' : 'solana:0',
  ) => (await signer.sign({ requestId: `r${++requests}`, keyId, kind, bytes })).bytes
  return { signer, sign, lost }
}

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

t.test('one request id gets one answer, whatever it was', async (t) => {
  const { signer } = await startSigner(t)
  const request = { requestId: 'once', keyId: 'evm:0', kind: 'evm-message', bytes: Buffer.from('x') } as const
  const responses = await Promise.allSettled(Array.from({ length: 5 }, () => signer.sign(request)))
  t.equal(responses.filter(({ status }) => status === 'fulfilled').length, 1)
  await t.rejects(signer.sign(request), { code: 'REQUEST_ID_USED' })
  await t.rejects(signer.sign({ ...request, bytes: Buffer.from('y') }), { code: 'REQUEST_ID_USED' })
  await t.rejects(signer.sign({ ...request, requestId: '' }), { code: 'VALIDATION_ERROR' })
  await signer.stop()
  signer.start(await startProcess(t))
  await t.rejects(signer.sign(request), { code: 'REQUEST_ID_USED' }, 'locking does not free it')
})

t.test('a child that dies fails its requests cleanly, is told of once, and is not replaced', async (t) => {
  const { signer, sign, lost } = await startSigner(t)
  const pid = signer.pid!
  process.kill(pid, 'SIGSTOP')
  const ids = ['a', 'b', 'c']
  const request = (requestId: string) =>
    ({ requestId, keyId: 'evm:0', kind: 'evm-message', bytes: Buffer.from(requestId) }) as const
  const responses = ids.map((id) => signer.sign(request(id)))
  process.kill(pid, 'SIGKILL')
  for (const response of responses) await t.rejects(response, { code: 'SIGNER_LOST' })
  for (const id of ids)
    await t.rejects(signer.sign(request(id)), { code: 'REQUEST_ID_USED' }, 'nobody knows how far it got')
  await t.rejects(sign('evm-message', Buffer.from('next')), { code: 'SIGNER_LOST' }, 'the keys went with it')
  t.strictSame(lost, ['lost'])
  t.equal(signer.pid, undefined)
  await signer.stop()
  signer.start(await startProcess(t))
  t.equal((await sign('evm-message', Buffer.from('next'))).length, 65)
  await signer.stop()
  t.strictSame(lost, ['lost'], 'an end that was asked for is no loss')
})

t.test('whoever has the other end of the pipe and no password gets signatures and no key', async (t) => {
  const child = await startProcess(t)
  const bad = { code: 'BAD_PASSWORD' }
  const own = Buffer.alloc(32, 6)
  const forged = { ...proof, wrappedKey: seal(own, Buffer.alloc(32, 8), associated), passwordKey: own }
  for (const wrong of [wrongProof, forged, { ...proof, associated: Buffer.from('another') }]) {
    await t.rejects(child.check(wrong), bad)
    await t.rejects(child.open(wrong), bad)
    await t.rejects(child.exportKey(wrong, 'evm:0'), bad)
    await t.rejects(child.exportWords(wrong, seedRecord), bad)
    await t.rejects(child.wrap(wrong, own, associated), bad)
    await t.rejects(child.importKey(wrong, { id: 'import:x', version: 1 }, 'evm', Buffer.alloc(32, 1)), bad)
    await t.rejects(child.importSeed(wrong, Buffer.from('words'), 2), bad)
  }
  for (const other of [{ version: 2 }, { id: 'import:hot' }, { sealed: Buffer.alloc(200) }])
    await t.rejects(child.load({ ...seedRecord, ...other }), { code: 'VAULT_CORRUPT' })
  for (const id of ['keyring', '../value/x', 'seeds', ''])
    await t.rejects(child.load({ ...seedRecord, id }), { code: 'SIGNER_LOST' }, id)
  const backupKey = await child.backupKey(Buffer.alloc(16))
  for (const key of [backupKey, ...Object.values(await child.open(proof))]) {
    t.equal(openRecord(key, { vaultId, scope: 'key/seed', version: 1 }, seedRecord.sealed), undefined)
    t.notOk(key.equals(masterKey))
  }
  t.equal((await child.sign('evm:0', 'evm-message', Buffer.from('x'))).length, 65, 'and it goes on')
})

t.test('with the password, keys go in and out, and stay sealed in between', async (t) => {
  const child = await startProcess(t)
  t.strictSame(await child.exportKey(proof, 'import:hot'), Buffer.alloc(32, 7))
  const solana = Buffer.alloc(32, 12)
  const sealed = await child.importKey(proof, { id: 'import:sun', version: 1 }, 'solana', solana)
  t.notOk(sealed.includes(solana))
  t.strictSame(await child.exportKey(proof, 'import:sun'), solana)
  await t.rejects(child.importKey(proof, { id: 'import:nil', version: 1 }, 'evm', Buffer.alloc(32)), {
    code: 'VALIDATION_ERROR',
    message: /secp256k1 order/,
  })
  await t.rejects(child.exportKey(proof, 'import:none'), { code: 'KEY_UNKNOWN' })

  const before = await child.publicKey('evm:0')
  const words = 'test test test test test test test test test test test junk'
  const as = { id: 'seed-1', version: 1 }
  await t.rejects(child.importSeed(proof, Buffer.from(`${words} ${words}`), 2, { record: seedRecord, as }), {
    code: 'VALIDATION_ERROR',
    message: /checksum/,
  })
  const made = await child.importSeed(proof, Buffer.from(words), 2, { record: seedRecord, as })
  t.strictSame(await child.publicKey('evm:0'), before, 'not before it is on disk')
  await child.load({ id: 'seed', version: 2, sealed: made.sealed })
  t.equal(evmAddress(await child.publicKey('evm:0')), '0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266')
  t.equal((await child.exportWords(proof, { version: 2, sealed: made.sealed })).toString(), words)
  await t.rejects(child.load({ id: 'seed', version: 1, sealed: made.kept! }), { code: 'VAULT_CORRUPT' })
  t.ok(
    openRecord(masterKey, { vaultId, scope: 'key/seed-1', version: 1 }, made.kept!),
    'the former one is kept',
  )

  const next = Buffer.alloc(32, 13)
  const wrappedKey = await child.wrap(proof, next, Buffer.from('the next header'))
  await child.check({ vaultId, wrappedKey, associated: Buffer.from('the next header'), passwordKey: next })
})

t.test('stopping ends the process and fails what was under way; nothing is signed afterwards', async (t) => {
  const { signer, sign } = await startSigner(t)
  await signer.publicKey('evm:0')
  const pid = signer.pid!
  process.kill(pid, 'SIGSTOP')
  const underWay = t.rejects(sign('evm-message', Buffer.from('x')), { code: 'VAULT_LOCKED' })
  await signer.stop()
  await underWay
  t.throws(() => process.kill(pid, 0), { code: 'ESRCH' }, 'also a process that does not listen')
  await t.rejects(sign('evm-message', Buffer.from('x')), { code: 'VAULT_LOCKED' })
})

t.test(
  'keys are in no argument and no environment, and the process dumps no core',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const { signer } = await startSigner(t)
    await signer.publicKey('evm:0')
    const shown = ['cmdline', 'environ']
      .map((name) => readFileSync(`/proc/${signer.pid}/${name}`, 'latin1'))
      .join('')
    for (const form of [seed.toString('hex'), seed.toString('base64'), seed.toString('latin1')])
      t.notOk(shown.includes(form))
    t.match(readFileSync(`/proc/${signer.pid}/limits`, 'utf8'), /core file size +0 +0/)
  },
)

t.test('frames arrive whole, however the pipe cuts them', async (t) => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 20 }), { maxLength: 6 }),
      fc.integer({ min: 1, max: 9 }),
      (all, size) => {
        const stream = Buffer.concat(all.map((bytes, i) => signFrame(i, 'evm-message', 'evm:0', bytes)))
        const seen: string[] = []
        const read = createFrameReader((body) =>
          seen.push(unpackFields(body.subarray(5))[2]!.toString('hex')),
        )
        for (let at = 0; at < stream.length; at += size) read(Buffer.from(stream.subarray(at, at + size)))
        return JSON.stringify(seen) === JSON.stringify(all.map((bytes) => Buffer.from(bytes).toString('hex')))
      },
    ),
  )
  t.throws(
    () => createFrameReader(() => {})(Buffer.alloc(4, 0xff)),
    RangeError,
    'a length that is none of ours',
  )
})

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
