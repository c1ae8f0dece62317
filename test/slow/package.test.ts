// The npm package as a user gets it: packed, installed into an empty folder, used there.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'

const root = resolve(import.meta.dirname, '../..')
const folder = mkdtempSync(join(tmpdir(), 'tollgate-package-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

/** Without what npm and the test runner tell their children. */
const env = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_OPTIONS|NODE_TEST|TAP)/.test(name)),
)

const run = (program: string, args: readonly string[], cwd = folder) =>
  execFileSync(program, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })

const bin = join(folder, 'node_modules/tollgate/cli/bin.js')
const tollgate = (...args: string[]) => run(process.execPath, [bin, ...args])

interface Packed {
  readonly filename: string
  readonly version: string
  readonly files: readonly { readonly path: string }[]
}

function pack(): Packed {
  const out = run('npm', ['pack', '--json', '--pack-destination', folder], root)
  // The build writes to standard output before npm does.
  const packed = JSON.parse(out.slice(out.search(/^[[{]/m)))
  return (Array.isArray(packed) ? packed[0] : Object.values(packed)[0]) as Packed
}

const packed = pack()

t.test('the package has what runs and what is read, and no sources or tests but for examples', async (t) => {
  const files = packed.files.map(({ path }) => path)
  const needed = [
    'cli/bin.js',
    'config/default.yaml',
    'config/presets/base-mainnet.yaml',
    'config/tollgate.schema.json',
    'dist/localnet/evm/artefacts/TestUSDC.json',
    'dist/adapters/store/sqlite/backup/backup.worker.js',
    'dist/adapters/store/sqlite/commit/writer.worker.js',
    'dist/adapters/store/sqlite/payments/responses.worker.js',
    'dist/cli/main.js',
    'dist/core/plugin/public.d.ts',
    'dist/core/plugin/public.js',
    'dist/vault/page/dist/index.html',
    'dist/vault/page/dist/main.js',
    'dist/vault/page/dist/page.css',
    'dist/vault/page/ownerPage.js',
    'deploy/systemd/tollgate.service',
    'docs/reference/configuration.md',
    'dist/web/dist/docs/index.html',
    'dist/web/dist/docs/tutorials/sell-your-api.html',
    'docs/README.md',
    'examples/plugin/index.ts',
    'LICENSE',
    'README.md',
    'SECURITY.md',
  ]
  for (const file of needed) t.ok(files.includes(file), file)
  const isUnwanted = (file: string) =>
    /\.test\.|fixture|^(test|node_modules)\//.test(file) ||
    (/(?<!\.d)\.ts$/.test(file) && !file.startsWith('examples/'))
  t.strictSame(files.filter(isUnwanted), [])
})

t.test(
  'the address of the repository is not decided: these fields hold a placeholder, and nothing else',
  async (t) => {
    const { repository, bugs, homepage, keywords } = JSON.parse(
      readFileSync(join(root, 'package.json'), 'utf8'),
    )
    const placeholder = 'https://github.com/OWNER/tollgate'
    t.strictSame(
      [repository.url, bugs.url, homepage],
      [`git+${placeholder}.git`, `${placeholder}/issues`, `${placeholder}#readme`],
    )
    t.ok(keywords.includes('x402'))
    const texts = packed.files.map(({ path }) => path).filter((path) => /\.(md|html|js|ts|ya?ml)$/.test(path))
    const others = texts.filter((path) => readFileSync(join(root, path), 'utf8').includes('OWNER/tollgate'))
    t.strictSame(others, [])
  },
)

t.test(
  'installed, the command checks a configuration that it wrote, opens a store and backs it up',
  async (t) => {
    writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
    run('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', join(folder, packed.filename)])

    t.equal(tollgate('--version').trim(), packed.version)
    const wallet = '0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913'
    t.match(tollgate('init', '--store', 'demo', '--base', wallet), /tg_live_/)
    t.match(tollgate('check'), /"phase":"settle","plugin":"x402"/)
    t.match(tollgate('backup', 'copy.db'), /copy\.db/)
  },
)

t.test('it starts, serves and stops', async (t) => {
  const config =
    'publicUrl: http://127.0.0.1:8080\ngateway: { port: 0 }\nadmin: { port: 0 }\nlog: { format: json }\n'
  writeFileSync(join(folder, 'own.yaml'), config)
  const child = spawn(process.execPath, [bin, 'start', '--config', 'own.yaml'], {
    cwd: folder,
    env,
    stdio: ['ignore', 'inherit', 'pipe'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const { url } = await running(child)
  t.equal((await fetch(`${url}/healthz`)).status, 200)
  const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as { paths: object }
  t.ok('/api/v1/links' in paths)
  t.match(await (await fetch(`${url}/docs/`)).text(), 'Sell your own API')
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  t.equal((await exited)[0], 0)
})

t.test('its vault serves the approvals page, with every file of it', async (t) => {
  const home = join(folder, 'vault')
  writeFileSync(join(folder, 'password'), 'correct horse battery staple\n', { mode: 0o600 })
  const own = ['--home', home, '--password-file', 'password', '--json']
  tollgate('vault', 'init', ...own)
  const child = spawn(process.execPath, [bin, 'vault', '--port', '0', ...own], {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const [line] = await once(createInterface({ input: child.stdout }), 'line')
  const { url } = JSON.parse(line)
  const worker = await (await fetch(`${url}/owner/sw.js`)).text()
  const files = [...worker.matchAll(/^ {2}'([^']+)',$/gm)].map(([, file]) => file)
  for (const file of ['main.js', 'page.css']) t.ok(files.includes(file), `${file} is one of its files`)
  for (const file of files) t.equal((await fetch(new URL(file!, `${url}/owner/`))).status, 200, file!)
  t.match(JSON.parse(tollgate('vault', 'open', '--home', home, '--json')).url, `${url}/owner/#code=`)
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  await exited
})

t.test('the demo names one command that installs what it needs, and pays after it', async (t) => {
  const missing = spawnSync(process.execPath, [bin, 'demo', '--once'], { cwd: folder, env, encoding: 'utf8' })
  t.equal(missing.status, 1)
  const [, install] = /^ {2}npm (install .+)$/m.exec(missing.stderr)!
  run('npm', [...install!.split(' '), '--no-audit', '--no-fund', '--prefer-offline'])
  const payments = tollgate('demo', '--once').trim().split('\n')
  t.match(
    payments.map((line) => JSON.parse(line)),
    [
      { network: 'eip155:84532', status: 200 },
      { network: /^solana:/, status: 200 },
    ],
  )
})

async function running({ stderr }: ChildProcess): Promise<{ url: string }> {
  for await (const line of createInterface({ input: stderr! })) {
    const entry = JSON.parse(line)
    if (entry.msg === 'tollgate is running') return entry
  }
  throw new Error('It ended before it ran.')
}

t.test('a plugin that it writes passes its test and the compiler, against tollgate/plugin', async (t) => {
  tollgate('plugin', 'new', 'my-plugin')
  t.match(run(process.execPath, ['--test', '--test-reporter=tap', 'my-plugin/index.test.ts']), /^# fail 0$/m)
  const options = {
    target: 'es2024',
    module: 'nodenext',
    strict: true,
    noEmit: true,
    erasableSyntaxOnly: true,
    verbatimModuleSyntax: true,
    allowImportingTsExtensions: true,
    types: ['node'],
    typeRoots: [join(root, 'node_modules/@types')],
  }
  const settings = { compilerOptions: options, include: ['my-plugin', 'wrong.ts'] }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(settings))
  // A contract that resolved to `any` would let everything pass.
  writeFileSync(
    join(folder, 'wrong.ts'),
    "import type { Exchange } from 'tollgate/plugin'\n// @ts-expect-error\nexport const nope = (x: Exchange) => x.nope\n",
  )
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  t.equal(run(process.execPath, [tsc, '-p', '.']), '')
})
