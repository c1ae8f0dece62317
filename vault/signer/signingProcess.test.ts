import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import t from 'tap'
import {
  associated,
  masterKey,
  proof,
  seed,
  seedRecord,
  startProcess,
  startSigner,
  vaultId,
} from '../../test/helpers/vault/signing.ts'
import { openRecord, seal } from '../disk/aead.ts'
import { evmAddress } from '../keys/vaultKeyring.ts'
import { createFrameReader, type Proof, signFrame, unpackFields } from './protocol.ts'

const wrongProof: Proof = { ...proof, passwordKey: Buffer.alloc(32, 5) }

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
    await t.rejects(signer.sign(request(id)), { code: 'REQUEST_ID_USED' }, 'how far it got is unknown')
  await t.rejects(sign('evm-message', Buffer.from('next')), { code: 'SIGNER_LOST' }, 'the keys went with it')
  t.strictSame(lost, ['lost'])
  t.equal(signer.pid, undefined)
  await signer.stop()
  signer.start(await startProcess(t))
  t.equal((await sign('evm-message', Buffer.from('next'))).length, 65)
  await signer.stop()
  t.strictSame(lost, ['lost'], 'an end that was asked for is no loss')
})

t.test('a process with the other end of the pipe and no password gets signatures and no key', async (t) => {
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
