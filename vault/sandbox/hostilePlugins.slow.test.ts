import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { until } from '../../test/helpers/rawHttp.ts'
import { pluginFrom } from '../../test/helpers/vault/pluginFrom.ts'
import { signBody } from '../../test/helpers/vault/transfers.ts'
import { authorize, impatient, limits, noWait, vaultWith } from '../../test/helpers/vault/vaultWithPlugins.ts'
import { buildPipelines } from '../host/pipelines.ts'
import { builtInVaultPlugins } from '../plugins/builtIn.ts'
import { createPluginFinder } from './findPlugin.ts'
import { startPlugin } from './sandboxedPlugin.ts'

t.test('what throws, and what is no decision, refuses the request and nothing else', async (t) => {
  const responses: Record<string, string> = {
    '0.01': "throw new Error('oops')",
    '0.02': "return Promise.reject(new Error('later'))",
    '0.03': "return { status: 200, body: { signature: '0x' } }",
    '0.04': "return { decision: 'approve' }",
    '0.05': "return { decision: 'ask', reason: '' }",
    '0.06': "return { decision: 'deny', code: 'lower case', message: 'x' }",
    '0.07': "return { decision: 'ask', reason: 'x'.repeat(1000) }",
    '0.08': "return 'allow'",
    '0.09': 'return { get decision() { throw 1 } }',
    '0.11': 'return () => 1',
    '0.12': "say({ t: 'log', level: 'info', fields: {}, text: { a: 1 } }); throw new Error('oops')",
    '0.13': "say({ t: 'ask', id: 1, port: { toString: 1 }, args: [] }); throw new Error('oops')",
    '0.14': "say({ t: 'threw', id: 13, message: { toString: 1 } }); return new Promise(() => {})",
    '0.15': "ports.log.info({}, 'x'.repeat(501)); throw new Error('oops')",
  }
  const cases = Object.entries(responses).map(
    ([amount, code]) => `if (String(x.input.amount) === '${amount}') { ${code} }`,
  )
  const say = "const say = (message) => fs.writeSync(1, JSON.stringify(message) + '\\n')\n"
  const odd = await pluginFrom(t, say + authorize(cases.join('\n')), {
    before: "import fs from 'node:fs'",
    more: "needs: ['log', 'egress']",
  })
  const { vault, sign, lines } = await vaultWith(t, [odd])
  for (const [nonce, amount] of Object.keys(responses).entries()) {
    const { status, body, headers } = await sign(amount, nonce)
    if (amount === '0.11') {
      t.equal(status, 200, 'a function is nothing as data: the plugin has nothing against it')
      continue
    }
    t.match(
      [status, body.error.code, body.error.retryable, headers['retry-after']],
      [503, 'PLUGIN_FAILED', true, '1'],
      String(responses[amount]),
    )
    t.match(body.error, { message: /odd/, details: { plugin: 'odd' } })
  }
  t.equal((await sign('0.5', 20)).status, 200, 'the vault and the plugin go on')
  const { body } = await vault.asOwner('GET', '/v1/vault/activity?status=FAILED')
  t.match(body.events[0], { details: { note: 'plugin odd' } }, 'the owner reads which plugin it was')
  t.match(
    lines.find(({ reason }) => reason?.includes('oops')),
    { plugin: 'odd' },
  )
  t.ok(
    lines.some(({ text }) => text === 'x'.repeat(500)),
    'words that are too long for the log are cut',
  )
})

t.test(
  'a plugin that hangs, loops, leaves or blows up is started again; meanwhile its requests are refused',
  async (t) => {
    const deadly = {
      '0.01': 'while (true) {}',
      '0.02': 'return new Promise(() => {})',
      '0.03': 'process.exit(0)',
      '0.04': 'process.stdout.write = 1; for (const all = []; ; ) all.push(new Array(1e6).fill(1.5))',
      '0.05': "Promise.reject(new Error('nobody catches it')); return new Promise(() => {})",
      '0.06': "return new Promise((done) => setTimeout(done, 900, { decision: 'allow' }))",
      '0.07': 'process.abort()',
      '0.08': "return { decision: 'ask', reason: 'x'.repeat(3_000_000) }",
    }
    const cases = Object.entries(deadly).map(
      ([amount, code]) => `if (String(x.input.amount) === '${amount}') { ${code} }`,
    )
    const { sign, lines, agent } = await vaultWith(
      t,
      [
        await pluginFrom(
          t,
          `return { route: (operation) => operation === 'vault_sign_tx' ? { authorize: (x) => { ${cases.join('\n')} } } : undefined }`,
        ),
      ],
      impatient,
    )
    let nonce = 0
    for (const [amount, code] of Object.entries(deadly)) {
      const before = lines.filter(({ text }) => text === 'the plugin is back').length
      const failing = sign(amount, nonce++)
      t.equal((await agent.call('GET', '/address/base')).status, 200, 'others are not held up')
      const { status, body } = await failing
      t.strictSame([status, body.error.code], [503, 'PLUGIN_FAILED'], code)
      await until(() => lines.filter(({ text }) => text === 'the plugin is back').length > before)
      t.equal((await sign('0.5', nonce++)).status, 200, `after ${code}`)
    }
    t.match(
      lines.map(({ reason }) => reason).join('\n'),
      /did not decide within 400 ms[\s\S]*nobody catches it/,
    )
  },
)

t.test('a plugin reads no file of the home, no environment, and reaches nothing but its ports', async (t) => {
  const tries = await pluginFrom(
    t,
    `return { route: () => ({ async authorize(x) {
      const got = []
      const attempt = async (name, work) => { try { await work(); got.push(name) } catch {} }
      const file = x.input.purpose
      await attempt('read', () => fs.readFileSync(file))
      await attempt('list', () => fs.readdirSync('/tmp'))
      await attempt('parent', () => fs.readFileSync('/proc/' + process.ppid + '/environ'))
      await attempt('write', () => fs.writeFileSync(file + '.x', ''))
      await attempt('run', () => import('node:child_process').then((m) => m.execSync('true')))
      await attempt('thread', () => import('node:worker_threads').then((m) => new m.Worker('', { eval: true })))
      await attempt('database', () => import('node:sqlite').then((m) => new m.DatabaseSync(file + '.db')))
      const { constructor } = loader
      constructor._resolveFilename = () => 'node:sqlite'
      await attempt('database by another name', () => new (constructor._load('x').DatabaseSync)(file + '.db'))
      await attempt('database by hooks', () => constructor.registerHooks({ resolve: () => ({ url: 'node:sqlite', shortCircuit: true }) }))
      await attempt('flags', () => {
        v8.setFlagsFromString('--trace-turbo-cfg-file=' + file + '.x')
        v8.setFlagsFromString('--trace-turbo')
        for (let i = 0; i < 1e5; i++) JSON.stringify(i)
      })
      await attempt('flags by name', () => setFlagsFromString('--no-opt'))
      await attempt('link', () => fs.readFileSync(new URL('./out' + file, import.meta.url)))
      let own
      await attempt('its own', () => { own = fs.readFileSync(new URL('./deep/in', import.meta.url), 'utf8') })
      got.push(own)
      await attempt('builtin', () => process.getBuiltinModule('node:sqlite').DatabaseSync)
      await attempt('debugger', () => process._debugProcess(process.ppid))
      await attempt('signal', () => process.kill(process.ppid, 0))
      await attempt('priority', () => os.setPriority(process.ppid, 10))
      await attempt('net', () => new Promise((ok, no) => net.connect(Number(x.input.agent_name), '127.0.0.1').on('connect', ok).on('error', no)))
      await attempt('environment', () => { if (Object.keys(process.env).length === 0) throw 1 })
      await attempt('ports', () => { if (Object.keys(ports).length === 0) throw 1 })
      return { decision: 'deny', code: 'GOT', message: 'got ' + got.join() }
    } }) }`,
    {
      before: `import fs from 'node:fs'
import net from 'node:net'
import os from 'node:os'
import v8 from 'node:v8'
import { setFlagsFromString } from 'node:v8'
import loader from './loader.cjs'`,
      files: (folder) => {
        writeFileSync(join(folder, 'loader.cjs'), 'module.exports = module')
        mkdirSync(join(folder, 'deep'))
        writeFileSync(join(folder, 'deep', 'file'), 'mine')
        symlinkSync('/', join(folder, 'out'))
        symlinkSync('file', join(folder, 'deep', 'in'))
      },
    },
  )
  const { vault, agent } = await vaultWith(t, [tries])
  const file = join(vault.home, 'vault.json')
  const { body } = await agent.call(
    'POST',
    '/v1/vault/sign',
    { ...signBody('0.5'), purpose: file, agent_name: new URL(vault.url).port },
    noWait,
  )
  t.equal(body.error.message, 'The plugin odd refused the request: got its own,mine')
  t.notOk(existsSync(`${file}.x`) || existsSync(`${file}.db`))
})

t.test(
  'nothing of a plugin runs in the process that finds it, and loading it may fail in any way',
  async (t) => {
    const codes = {
      'throws at load': ["throw new Error('not today')", /not today/],
      'leaves at load': ['process.exit(0)', /ended with status 0/],
      'is no plugin': ['export default 7', /no default export that is an object/],
      'has a name of two lines': [
        "export default { name: 'a\\nb', api: 1, options: {}, needs: [], setup() {} }",
        /no name/,
      ],
      'has the name of a built-in one': [
        "export default { name: 'telegram', api: 1, options: {}, needs: [], setup() {} }",
        /has the name telegram/,
      ],
      'writes to the channel': [
        "process.binding; (await import('node:fs')).writeSync(1, 'hello\\n')",
        /wrote to its channel/,
      ],
    } as const
    const folder = t.testdir(
      Object.fromEntries(
        Object.entries(codes).map(([name, [code]]) => [
          `${name.replaceAll(' ', '-')}.mjs`,
          `globalThis.ran = true\n${code}`,
        ]),
      ),
    )
    const finder = createPluginFinder(builtInVaultPlugins, folder, folder)
    for (const [name, [, words]] of Object.entries(codes))
      await t.rejects(finder.load(`./${name.replaceAll(' ', '-')}.mjs`), { message: words }, name)
    t.notOk('ran' in globalThis)
  },
)

t.test('a plugin that wants to answer for the owner needs the owner’s word for it', async (t) => {
  const channel = await pluginFrom(
    t,
    `return {
      route: () => undefined,
      start() {
        ports.approvals.watch(async (question) => {
          if (question.state !== 'pending') return
          await ports.approvals.approve(question.id, '00', 'somebody').catch((error) => ports.log.warn({ code: error.code }, 'wrong hash'))
          await ports.approvals.approve(question.id, question.decisionHash, 'somebody')
        })
      },
    }`,
    { name: 'channel', more: "needs: ['approvals', 'log']" },
  )
  await t.rejects(
    buildPipelines([], [channel], () => undefined as never),
    { message: /channel .*in your name.*mayAnswer/ },
  )
  const { vault, sign, lines } = await vaultWith(t, [{ ...channel, mayAnswer: true }])
  const pendingApproval = await sign('3')
  const approval = () => vault.api.approvals.get(pendingApproval.body.approval_id, vault.owner)
  await until(() => approval().status !== 'pending')
  t.equal((await sign('3')).status, 200)
  t.match(
    lines.find(({ text }) => text === 'wrong hash'),
    { plugin: 'channel', fields: { code: 'APPROVAL_RESOLVED' } },
  )
  t.match(JSON.stringify((await vault.asOwner('GET', '/v1/vault/activity')).body), /channel: somebody/)
})

t.test(
  'a plugin that fails or hangs while it is started again waits longer each time, and holds up no end',
  async (t) => {
    const plugin = await pluginFrom(t, 'return { route: () => ({ authorize() {} }) }')
    const lines: { waitMs?: number; text: string }[] = []
    const note = (fields: object, text: string) => void lines.push({ ...fields, text })
    const log = { debug: note, info: note, warn: note, error: note }
    const { where } = plugin.plugin
    const running = await startPlugin(
      { name: 'odd', needs: ['log'], where, files: [], options: {} },
      'odd',
      {
        log,
        clock: { now: () => 0 },
        approvals: { isLocked: () => true, watchLock: () => () => {} },
      } as never,
      { ...limits, loadMs: 1e9, restartMinMs: 10, restartMaxMs: 1_000, steadyMs: 0 },
    )
    const file = join(where.baseDir, where.use)
    const waits = () => lines.flatMap(({ waitMs }) => waitMs ?? [])
    writeFileSync(file, "throw new Error('not again')")
    process.kill(running.pid!, 'SIGKILL')
    await until(() => waits().length >= 3)
    t.strictSame(waits().slice(0, 3), [10, 20, 40])
    const result = JSON.stringify({ t: 'log', level: 'info', text: 'loading' })
    writeFileSync(file, `import fs from 'node:fs'\nfs.writeSync(1, '${result}\\n')\nwhile (true) {}`)
    await until(() => lines.some(({ text }) => text === 'loading'))
    await running.close()
    t.pass('it does not wait for a plugin that never is loaded')
  },
)

t.test('a plugin that loops ends with its vault, however that ended', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'plugin-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'loops.mjs'), 'while (true) {}\n')
  const pluginId = {
    use: './loops.mjs',
    isBuiltIn: false,
    baseDir: folder,
    home: join(folder, 'home'),
    names: [],
  }
  const events = '{ onMessage() {}, onEnd() {} }'
  const script = `
    import { PluginProcess } from ${JSON.stringify(new URL('./pluginProcess.ts', import.meta.url).href)}
    const place = ${JSON.stringify(pluginId)}
    const plugin = new PluginProcess(place, [], ${events})
    plugin.load(place, 60_000).catch(() => undefined)
    console.log(plugin.pid)`
  const vault = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = await once(vault.stdout, 'data')
  const pid = Number(line)
  t.ok(pid > 0 && isAlive(pid))
  vault.kill('SIGKILL')
  await until(() => !isAlive(pid), 'the plugin to be gone')
})

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
