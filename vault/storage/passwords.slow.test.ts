import { statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { editDatabase } from '../../test/helpers/vault/journals.ts'
import { make, mnemonic, password } from '../../test/helpers/vault/storage.ts'
import { createVault } from './createVault.ts'

t.test(
  'wrong passwords wait longer and longer, wherever they are asked for and across restarts',
  async (t) => {
    const { vault, clock, open } = await make(t)
    await vault.close()
    let waitS = 1
    for (let n = 0; n < 3; n++) {
      const next = await open()
      await t.rejects(next.unlock('wrong password'), { code: 'BAD_PASSWORD', retryAfterSeconds: waitS })
      await t.rejects(
        next.unlock(password),
        { code: 'TOO_MANY_ATTEMPTS', retryAfterSeconds: waitS },
        'not even looked at',
      )
      await next.close()
      const restarted = await open()
      clock.pass(waitS * 1_000 - 1)
      await t.rejects(restarted.unlock(password), { code: 'TOO_MANY_ATTEMPTS' })
      clock.pass(1)
      await restarted.close()
      waitS *= 2
    }
    const last = await open()
    await last.unlock(password)
    await t.rejects(last.exportMnemonic('wrong password'), { code: 'BAD_PASSWORD', retryAfterSeconds: 1 })
    await t.rejects(last.exportMnemonic(password), { code: 'TOO_MANY_ATTEMPTS' })
    clock.pass(1_000)
    t.equal(await last.exportMnemonic(password), mnemonic)
  },
)

t.test('many guesses at once are looked at one after the other', async (t) => {
  const { vault } = await make(t)
  await vault.lock()
  const responses = await Promise.allSettled(
    Array.from({ length: 8 }, (_, n) => vault.unlock(`wrong password ${n}`)),
  )
  const codes = responses.map((response) => (response as PromiseRejectedResult).reason.code)
  t.strictSame(codes, ['BAD_PASSWORD', ...Array(7).fill('TOO_MANY_ATTEMPTS')])
})

t.test('a changed password opens, the old one does not, and no record was written anew', async (t) => {
  const made = await make(t)
  const { home, clock, open } = made
  let { vault } = made
  await vault.records.put('value', 'identity.name', 'Ada')
  const records = () => editDatabase(home, (db) => db.prepare('SELECT * FROM records').all())
  await vault.close()
  const before = records()
  vault = await open()
  await vault.unlock(password)
  await t.rejects(vault.changePassword('wrong password', 'another password'), { code: 'BAD_PASSWORD' })
  clock.pass(1_000)
  t.throws(() => vault.changePassword(password, 'short'), { code: 'VALIDATION_ERROR' })
  await vault.changePassword(password, 'another password')
  await vault.close()
  t.strictSame(records(), before)
  const next = await open()
  await t.rejects(next.unlock(password), { code: 'BAD_PASSWORD' })
  clock.pass(1_000)
  await next.unlock('another password')
  t.equal(next.records.getText('value', 'identity.name'), 'Ada')
})

t.test('passwords that are too short or no text are refused before anything is made', async (t) => {
  const home = join(t.testdir(), 'vault')
  for (const wrong of ['', 'seven77', 'x'.repeat(1025), undefined, 12345678]) {
    await t.rejects(createVault({ home, password: wrong as never }), { code: 'VALIDATION_ERROR' })
  }
  t.throws(() => statSync(home), { code: 'ENOENT' })
})
