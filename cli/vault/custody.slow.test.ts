import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { createVaultBox } from '../../test/helpers/cli/vault/vaultProcess.ts'

const hotKey = `0x${'11'.repeat(32)}`
const hotAddress = '0x19E7E376E7C213B7E7e7e46cc70A5dD086DAff2A'

t.test(
  'keys go in and out of a running vault, through files, with the password asked for again',
  async (t) => {
    const box = createVaultBox(t)
    const made = await box.json(['init', ...box.withPassword])
    const folder = dirname(box.home)
    const at = (name: string) => join(folder, name)
    const vault = await box.serve()

    const imported = await box.json(
      ['keys', 'import', 'hot', '--family', 'evm', ...box.withPassword],
      `${hotKey}\n`,
    )
    t.match(imported, { id: 'import:hot', address: hotAddress, in_use: false })
    t.equal((await box.json(['keys', 'use', 'import:hot'])).in_use, true)
    t.equal((await box.json(['keys', 'derive', 'evm', '1'])).id, 'evm:1')
    const listed = await box.run(['keys', 'list'])
    for (const id of ['evm:0', 'evm:1', 'solana:0', 'import:hot']) t.match(listed.stdout, id)

    const exported = await box.run(['keys', 'export', 'import:hot', '--to', at('key'), ...box.withPassword])
    t.equal(exported.status, 0, exported.stderr)
    t.equal(readFileSync(at('key'), 'utf8'), `${hotKey}\n`)
    t.equal(statSync(at('key')).mode & 0o777, 0o600)
    t.match(exported.stderr, /controls the account without your approval/)
    t.notMatch(exported.stdout, hotKey.slice(2))
    const printed = await box.json(['keys', 'export', 'import:hot', '--to', '-', ...box.withPassword])
    t.equal(printed.private_key, hotKey)
    await box.json(['keys', 'export-words', '--to', at('words'), ...box.withPassword])
    t.equal(readFileSync(at('words'), 'utf8').trim(), made.mnemonic)

    for (const [args, status, words] of [
      [['keys', 'export', 'import:hot', '--to', at('x')], 2, /--password-file/],
      [['keys', 'export', 'import:hot', '--to', at('key'), ...box.withPassword], 2, /already/],
      [['keys', 'export', 'import:none', '--to', at('x'), ...box.withPassword], 1, /KEY_UNKNOWN/],
      [
        ['keys', 'import', 'x', '--family', 'evm', '--file', at('nowhere'), ...box.withPassword],
        2,
        /nowhere/,
      ],
      [['keys', 'import', 'x', '--family', 'evm', '--password-file', '-'], 2, /at most one/],
      [['keys', 'derive', 'evm', 'one'], 2, /whole number/],
    ] as const) {
      const ran = await box.run(args)
      t.equal(ran.status, status, args.join(' '))
      t.match(ran.stdout + ran.stderr, words)
    }
    t.notOk(existsSync(at('x')), 'what was not handed out leaves no file')
    t.equal(await vault.stop(), 0)
  },
)

t.test(
  'a backup becomes a vault again, and the password changes on a running one and on a folder',
  async (t) => {
    const box = createVaultBox(t)
    const made = await box.json(['init', ...box.withPassword])
    const folder = dirname(box.home)
    const at = (name: string) => join(folder, name)
    const secret = (name: string, text: string) => writeFileSync(at(name), `${text}\n`, { mode: 0o600 })
    secret('new', 'the second password')
    secret('newer', 'the third password')

    const vault = await box.serve()
    t.equal((await box.json(['backup', at('backup')])).file, at('backup'))
    t.match((await box.run(['backup', at('backup')])).stdout, /ALREADY_EXISTS/)
    await box.json(['password', ...box.withPassword, '--new-password-file', at('new')])
    const busy = await box.run(['restore', at('backup'), ...box.withPassword])
    t.match([busy.status, busy.stdout], [1, /VAULT_(IN_USE|EXISTS)/])
    t.equal(await vault.stop(), 0)

    await box.json(['password', '--password-file', at('new'), '--new-password-file', at('newer')])
    const old = await box.run(['status', ...box.withPassword])
    t.match([old.status, old.stdout], [1, /BAD_PASSWORD/])

    const elsewhere = ['--home', at('restored')]
    const restored = await box.run(['restore', at('backup'), ...elsewhere, ...box.withPassword, '--json'])
    t.equal(restored.status, 0, restored.stderr)
    const { addresses, test_addresses } = JSON.parse(restored.stdout)
    t.strictSame(
      { addresses, test_addresses },
      { addresses: made.addresses, test_addresses: made.test_addresses },
    )
    t.match(restored.stderr, /spent since the backup/)
    const status = await box.json(['status', ...elsewhere, ...box.withPassword])
    t.match(status, { vault_id: made.vault_id, running: false })
    for (const [args, code, words] of [
      [['restore', at('none'), '--home', at('other'), ...box.withPassword], 2, /no such file/],
      [['restore', at('new'), '--home', at('other'), ...box.withPassword], 1, /VAULT_CORRUPT/],
      [['restore', at('backup'), ...elsewhere, ...box.withPassword], 1, /VAULT_EXISTS/],
      [['restore', at('backup'), '--home', at('other'), '--password-file', at('new')], 1, /BAD_PASSWORD/],
    ] as const) {
      const ran = await box.run(args)
      t.equal(ran.status, code, `${args.join(' ')}: ${ran.stdout}${ran.stderr}`)
      t.match(ran.stdout + ran.stderr, words)
    }
  },
)
