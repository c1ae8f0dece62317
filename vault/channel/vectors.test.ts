import { createHmac, createPrivateKey, diffieHellman } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { skipOrFail } from '../../test/helpers/redis.ts'
import { derive, openBytes, publicKeyObject, sealBytes, suite } from './suite.ts'

const folder = join(import.meta.dirname, '../../../shared/vectors')

interface Vector {
  readonly mode: number
  readonly aead_id: number
  readonly encryptions: readonly { aad: string; ct: string; pt: string; seq: number }[]
  readonly exports: readonly { exporter_context: string; L: number; exported_value: string }[]
  readonly [name: string]: unknown
}

interface WycheproofCase {
  readonly tcId: number
  readonly result: 'valid' | 'invalid' | 'acceptable'
  readonly [name: string]: unknown
}

function read(t: Test, name: string): Buffer | undefined {
  const file = join(folder, name)
  if (existsSync(file)) return name.endsWith('.gz') ? gunzipSync(readFileSync(file)) : readFileSync(file)
  skipOrFail(t, `${name} is not here`)
  return undefined
}

function wycheproof(t: Test, name: string): readonly (WycheproofCase & Record<string, string>)[] {
  const bytes = read(t, `wycheproof_${name}.json.gz`)
  if (bytes === undefined) return []
  const { testGroups } = JSON.parse(bytes.toString()) as { testGroups: { tests: never[] }[] }
  return testGroups.flatMap((group) =>
    group.tests.map((test: object) => ({ ...(group as object), ...test }) as never),
  )
}

const hex = (value: unknown): Buffer => Buffer.from((value ?? '') as string, 'hex')

t.test('the suite gives the numbers of RFC 9180 in every mode', async (t) => {
  const bytes = read(t, 'rfc9180_x25519_hkdfsha256.json')
  if (bytes === undefined) return
  const vectors = (JSON.parse(bytes.toString()) as Vector[]).filter((v) => v.aead_id === 3)
  t.equal(vectors.length, 4, 'one a mode')
  for (const v of vectors) {
    const psk = v['psk'] ? { id: hex(v['psk_id']), key: hex(v['psk']) } : undefined
    const shared = { info: hex(v['info']), ...(psk ? { psk } : {}) }
    const pairOf = async (name: string) => ({
      publicKey: await suite.kem.deserializePublicKey(hex(v[`pk${name}`])),
      privateKey: await suite.kem.deserializePrivateKey(hex(v[`sk${name}`])),
    })
    const [recipient, ephemeral] = [await pairOf('Rm'), await pairOf('Em')]
    const sender = v['skSm'] ? await pairOf('Sm') : undefined
    const sending = await suite.createSenderContext({
      ...shared,
      recipientPublicKey: recipient.publicKey,
      ekm: ephemeral,
      ...(sender ? { senderKey: sender } : {}),
    })
    const receiving = await suite.createRecipientContext({
      ...shared,
      recipientKey: recipient,
      enc: hex(v['enc']),
      ...(sender ? { senderPublicKey: sender.publicKey } : {}),
    })
    t.equal(Buffer.from(sending.enc).toString('hex'), v['enc'], `mode ${v.mode}: enc`)
    const last = Math.max(...v.encryptions.map(({ seq }) => seq))
    for (let seq = 0; seq <= last; seq++) {
      const e = v.encryptions.find((one) => one.seq === seq)
      const sealed = Buffer.from(await sending.seal(hex(e?.pt), hex(e?.aad)))
      const opened = Buffer.from(await receiving.open(sealed, hex(e?.aad)))
      if (e === undefined) continue
      t.equal(sealed.toString('hex'), e.ct, `mode ${v.mode}: ciphertext ${seq}`)
      t.equal(opened.toString('hex'), e.pt, `mode ${v.mode}: plaintext ${seq}`)
    }
    for (const e of v.exports)
      for (const side of [sending, receiving]) {
        const value = Buffer.from(await side.export(hex(e.exporter_context), e.L))
        t.equal(value.toString('hex'), e.exported_value, `mode ${v.mode}: export`)
      }
  }
})

t.test('X25519 agrees with every Wycheproof case, and gives nothing for keys of low order', (t) => {
  const pkcs8 = Buffer.from('302e020100300506032b656e04220420', 'hex') // RFC 8410, section 7
  for (const c of wycheproof(t, 'x25519')) {
    const der = Buffer.concat([pkcs8, hex(c['private'])])
    const privateKey = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
    const agree = () => diffieHellman({ privateKey, publicKey: publicKeyObject('X25519', hex(c['public'])) })
    if (/^0+$/.test(c['shared']!)) t.throws(agree, `case ${c.tcId} gives an all-zero secret`)
    else t.equal(agree().toString('hex'), c['shared'], `case ${c.tcId}`)
  }
  t.end()
})

t.test('ChaCha20-Poly1305 agrees with every Wycheproof case of its nonce size', (t) => {
  for (const c of wycheproof(t, 'chacha20_poly1305')) {
    if (hex(c['iv']).byteLength !== 12) continue
    const [key, nonce, aad] = [hex(c['key']), hex(c['iv']), hex(c['aad'])]
    const sealed = Buffer.concat([hex(c['ct']), hex(c['tag'])])
    const opened = openBytes(key, nonce, aad, sealed)
    if (c.result === 'valid') {
      t.equal(opened?.toString('hex'), c['msg'], `case ${c.tcId} opens`)
      t.equal(sealBytes(key, nonce, aad, hex(c['msg'])).toString('hex'), sealed.toString('hex'))
    } else t.equal(opened, undefined, `case ${c.tcId} (${c['comment']}) does not open`)
  }
  t.end()
})

t.test('HKDF-SHA256 agrees with every Wycheproof case, and with its definition for text labels', (t) => {
  for (const c of wycheproof(t, 'hkdf_sha256')) {
    // A label is text here; the cases' are bytes, which latin1 would change above 0x7f.
    const label = hex(c['info'])
    if (label.some((byte) => byte > 0x7f)) continue
    const run = () => derive(hex(c['ikm']), hex(c['salt']), label.toString('latin1'), Number(c['size']))
    if (c.result === 'invalid') t.throws(run, `case ${c.tcId} asks for too much`)
    else t.equal(run().toString('hex'), c['okm'], `case ${c.tcId}`)
  }
  const prk = createHmac('sha256', 'salt').update('secret').digest()
  const expected = createHmac('sha256', prk).update('label\x01').digest()
  t.same(
    derive(Buffer.from('secret'), Buffer.from('salt'), 'label'),
    expected,
    'RFC 5869, sections 2.2 and 2.3',
  )
  t.end()
})
