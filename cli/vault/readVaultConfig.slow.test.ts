import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createVaultBox } from '../../test/helpers/cli/vault/vaultProcess.ts'

const plugin = (name: string, more = '') => `export default {
  name: '${name}',
  api: 1,
  options: {
    type: 'object',
    additionalProperties: false,
    properties: { text: { type: 'string', description: 'A text.', default: 'hi' } },
  },
  needs: ['log'],
  setup: () => ({ route: () => undefined }),
  ${more}
}`

t.test(
  'tollgate vault runs the plugins of its configuration, and does not start over a wrong one',
  async (t) => {
    const box = createVaultBox(t)
    await box.json(['init', ...box.withPassword])
    const at = (name: string) => join(box.home, name)
    const write = (name: string, text: string) => writeFileSync(at(name), text, { mode: 0o600 })
    write(
      'refuses.mjs',
      plugin(
        'refuses',
        `setup({ text }) {
        return { route: () => ({ authorize: () => ({ decision: 'deny', code: 'NOT_TODAY', message: text }) }) }
      },`,
      ),
    )
    write('vault.yaml', 'idleMinutes: 5\nplugins:\n  - use: ./refuses.mjs\n    with: { text: closed }\n')
    const { token } = await box.json(['agents', 'add', 'bot', '--scopes', 'wallet.base', ...box.withPassword])
    const vault = await box.serve()
    const response = await fetch(`${vault.url}/address/base`, {
      headers: { authorization: `Bearer ${token}` },
    })
    t.equal(response.status, 403)
    t.match(await response.json(), {
      error: {
        code: 'APPROVAL_DENIED',
        message: /refuses refused the request: closed/,
        details: { plugin: 'refuses', code: 'NOT_TODAY' },
      },
    })
    const { stdout } = await box.run(['activity', '--agent', 'bot', '--json'])
    t.match(stdout, /"ADDRESS".*"DENIED"/, 'what a plugin refuses is written down')
    t.equal(await vault.stop(), 0)

    for (const [file, text, words] of [
      [
        'option.yaml',
        'plugins:\n  - use: ./refuses.mjs\n    with: { texts: closed }\n',
        /option\.yaml:3.*[\s\S]*text\?/,
      ],
      ['phase.yaml', 'plugins: [{ use: ./phase.mjs }]', /guard.*not phases of the vault/],
      ['port.yaml', 'plugins: [{ use: ./port.mjs }]', /needs payments/],
      ['set-up.yaml', 'plugins: [{ use: ./set-up.mjs }]', /set-up failed its setup: no such thing/],
    ] as const) {
      write('phase.mjs', plugin('phase', 'setup: () => ({ route: () => ({ guard() {} }) }),'))
      write('port.mjs', plugin('port', "needs: ['payments'],"))
      write('set-up.mjs', plugin('set-up', "setup() { throw new Error('no such thing') },"))
      write(file, text)
      const { status, stdout, stderr } = await box.run([
        ...box.withPassword,
        '--port',
        '0',
        '--config',
        at(file),
      ])
      t.not(status, 0, file)
      t.match(stdout + stderr, words, file)
    }
    const again = await box.serve()
    t.equal(await again.stop(), 0, 'nothing of it stays behind')
  },
)
