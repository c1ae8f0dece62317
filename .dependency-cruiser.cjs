/** What may import what; checked in the test run (test/architecture/architecture.test.ts). */
const test = '(\\.(test|test-d|contract)\\.ts$|^test/)'
/**
 * The rooms of a folder, lowest layer first. A room imports only rooms of lower layers, so no two rooms import each other,
 * directly or through others. A new room gets its place here.
 */
const layersOf = {
  core: [
    ['errors', 'text', 'evm', 'solana'],
    ['domain'],
    ['x402'],
    ['ports'],
    ['http', 'rpc', 'jobs'],
    ['payments', 'health', 'figures', 'pricing'],
    ['offers'],
    ['channels'],
    ['plugin'],
    ['config'],
    ['kernel'],
  ],
  vault: [
    ['errors', 'ports', 'channel'],
    ['disk', 'keys', 'agents', 'secrets', 'effects', 'relay'],
    ['signer', 'audit', 'budget', 'approvals', 'policy', 'config', 'plugins', 'remote'],
    ['storage', 'requests', 'sandbox', 'loopback'],
    ['host', 'proxy'],
    ['operations'],
    ['http'],
    ['mcp', 'page'],
  ],
  'admin-api': [
    ['http'],
    ['sellers', 'purchases'],
    ['webhooks'],
    ['links'],
    ['market'],
    ['payments'],
    ['operator', 'mcp'],
  ],
}
const product = '^(core|gateway|plugins|admin-api|vault|adapters|buyer|localnet|cli|web)/'

module.exports = {
  forbidden: [
    {
      name: 'plugin-imports-core-and-itself',
      comment: 'A plugin is changed, tested and removed without touching another folder.',
      severity: 'error',
      from: { path: '^plugins/([^/]+)/', pathNot: test },
      to: { path: product, pathNot: ['^plugins/$1/', '^core/'] },
    },
    {
      name: 'core-imports-nothing-else',
      comment: 'The kernel, the domain and the ports stand by themselves.',
      severity: 'error',
      from: { path: '^core/', pathNot: test },
      to: { path: '^(gateway|plugins|admin-api|vault|adapters|buyer|localnet|cli|web|bench|test)/' },
    },
    {
      name: 'core-has-no-driver',
      severity: 'error',
      from: { path: '^core/', pathNot: test },
      to: {
        path: '^(node:sqlite|sqlite$)|node_modules/(pg|ioredis|undici|viem|@solana/web3\\.js|http-proxy-3|fastify|kysely)/',
      },
    },
    {
      name: 'programs-know-no-http-server',
      comment:
        "A link's program runs behind any door; node's requests and responses stay behind the gateway's.",
      severity: 'error',
      from: { path: '^(core/(plugin|kernel|payments|offers|x402|domain|ports)|plugins)/', pathNot: test },
      to: { path: '^(node:)?https?$' },
    },
    {
      name: 'hosts-do-not-import-each-other',
      comment: 'Only cli wires gateway, admin API and vault together.',
      severity: 'error',
      from: { path: '^(gateway|admin-api|vault)/', pathNot: test },
      to: { path: '^(gateway|admin-api|vault|cli)/', pathNot: '^$1/' },
    },
    {
      name: 'vault-imports-core-and-itself',
      comment:
        'A process that holds keys is read from end to end: what it is given from outside, cli hands it.',
      severity: 'error',
      from: { path: '^vault/', pathNot: ['^vault/page/app/', test] },
      to: { path: product, pathNot: ['^vault/', '^core/'] },
    },
    ...Object.entries(layersOf).flatMap(([folder, layers]) =>
      layers.map((rooms, layer) => ({
        name: `${folder}-rooms-stand-on-lower-ones`,
        comment: 'The ground is read without what stands on it.',
        severity: 'error',
        from: { path: `^${folder}/(${rooms.join('|')})/`, pathNot: test },
        to: {
          path: `^${folder}/[^/]+/`,
          pathNot: `^${folder}/(${['$1', ...layers.slice(0, layer).flat()].join('|')})/`,
        },
      })),
    ),
    {
      name: 'vault-reads-the-bundle-of-its-page',
      comment:
        'The process that holds keys never runs what browsers run: it serves files that were built before.',
      severity: 'error',
      from: { path: product, pathNot: ['^vault/page/app/', test] },
      to: { path: '^vault/page/app/' },
    },
    {
      name: 'vault-page-imports-the-kit',
      comment: 'Views of its own, made of the components and the shell that every page has.',
      severity: 'error',
      from: { path: '^vault/page/app/', pathNot: test },
      to: {
        path: product,
        pathNot: [
          '^vault/',
          '^core/(domain|text)/',
          '^web/(components|shell|island|types)/',
          '^web/html\\.ts$',
        ],
      },
    },
    {
      name: 'vault-page-runs-nothing-of-the-vault',
      comment: 'Of the vault it has types, and the one parser of grants.',
      severity: 'error',
      from: { path: '^vault/page/app/', pathNot: test },
      to: {
        path: '^vault/',
        pathNot: ['^vault/page/app/', '^vault/agents/grant\\.ts$'],
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'vault-plugin-imports-effects-and-itself',
      comment:
        'What decodes and proves a request can be read without the rest of the vault, and never sees a key.',
      severity: 'error',
      from: { path: '^vault/plugins/([^/]+)/', pathNot: test },
      to: { path: product, pathNot: ['^vault/plugins/$1/', '^vault/effects/', '^core/'] },
    },
    {
      name: 'relay-imports-channel-and-itself',
      comment: 'It carries sealed bytes between strangers, and is run by one.',
      severity: 'error',
      from: { path: '^vault/relay/', pathNot: test },
      to: { path: product, pathNot: ['^vault/relay/', '^vault/channel/', '^core/'] },
    },
    {
      name: 'proxy-imports-the-agents-end-and-itself',
      comment:
        "It stands on the agent's machine: of the vault it has the wire, and what one HTTP call needs.",
      severity: 'error',
      from: { path: '^vault/(proxy|loopback)/', pathNot: test },
      to: {
        path: product,
        pathNot: [
          '^vault/(proxy|loopback)/',
          '^vault/errors/',
          '^vault/relay/frames\\.ts$',
          '^vault/channel/',
          '^vault/remote/(pairToken|relayLink|remoteRequest|sessions)\\.ts$',
          '^core/',
        ],
      },
    },
    {
      name: 'relay-and-proxy-reach-no-keys',
      comment: 'Not over others either.',
      severity: 'error',
      from: { path: '^vault/(relay|proxy|loopback)/', pathNot: test },
      to: { path: '^vault/(host|keys|policy|secrets|signer|storage)/', reachable: true },
    },
    {
      name: 'vault-judges-by-effects-alone',
      severity: 'error',
      from: { path: '^vault/(effects|policy)/', pathNot: test },
      to: { path: product, pathNot: ['^vault/(effects|policy|ports)/', '^core/'] },
    },
    {
      name: 'adapters-import-core-only',
      severity: 'error',
      from: { path: '^adapters/', pathNot: test },
      to: { path: '^(gateway|plugins|admin-api|vault|buyer|localnet|cli)/' },
    },
    {
      name: 'buyer-imports-core-and-itself',
      comment:
        'Judging an offer and paying it is the same for a command, a vault and an agent: it is handed its files and keys.',
      severity: 'error',
      from: { path: '^buyer/', pathNot: test },
      to: { path: product, pathNot: ['^buyer/', '^core/'] },
    },
    {
      name: 'buyer-is-for-cli',
      severity: 'error',
      from: { path: product, pathNot: ['^(buyer|cli)/', test] },
      to: { path: '^buyer/' },
    },
    {
      name: 'web-imports-itself-and-the-pure-parts-of-core',
      comment:
        'A component is read by the server and by browsers: nothing in it may need a file, a socket or a store.',
      severity: 'error',
      from: { path: '^web/', pathNot: test },
      to: { path: product, pathNot: ['^web/', '^core/(domain|text|x402|solana)/'] },
    },
    {
      name: 'web-has-no-node-modules-in-browsers',
      comment: 'Only what renders and what builds runs in Node.',
      severity: 'error',
      from: { path: '^(web|vault/page/app)/', pathNot: ['^web/(render/|docs/build/|build\\.ts$)', test] },
      to: { dependencyTypes: ['core'] },
    },
    {
      name: 'pages-are-for-the-admin-api-and-the-vaults-browser',
      severity: 'error',
      from: { path: product, pathNot: ['^(admin-api|web|vault/page/app)/', test] },
      to: { path: '^web/' },
    },
    {
      name: 'wallets-stay-in-browsers',
      comment: 'What a buyer signs with is loaded when a wallet is chosen, and never by the server.',
      severity: 'error',
      from: { path: '^admin-api/', pathNot: test },
      to: { path: '^web/wallets/', reachable: true },
    },
    {
      name: 'database-drivers-in-adapters',
      comment: 'The vault has one file of its own, and imports no adapter.',
      severity: 'error',
      from: { path: product, pathNot: ['^adapters/', '^vault/disk/', test] },
      to: { path: '^(node:sqlite|sqlite$)|node_modules/(pg|ioredis|kysely)/' },
    },
    {
      name: 'chain-drivers-in-chains',
      severity: 'error',
      from: {
        path: product,
        pathNot: [
          '^adapters/chains/',
          '^buyer/chains/',
          '^localnet/',
          '^vault/plugins/chain-',
          '^vault/keys/curves\\.ts$',
          '^web/wallets/',
          test,
        ],
      },
      to: { path: 'node_modules/(viem|@solana/web3\\.js|@solana/kit|@x402|litesvm|secp256k1)/' },
    },
    {
      name: 'byte-forwarders-where-bytes-are-forwarded',
      severity: 'error',
      from: { path: product, pathNot: ['^adapters/egress/', '^gateway/adminForwarder\\.ts$', test] },
      to: { path: 'node_modules/(undici|http-proxy-3)/' },
    },
    {
      name: 'bot-api-in-its-channel',
      comment:
        'A library with a network client of its own stays where its requests are given to the way out.',
      severity: 'error',
      from: { path: product, pathNot: ['^vault/plugins/telegram/', test] },
      to: { path: 'node_modules/grammy/' },
    },
    {
      name: 'mcp-in-its-transport',
      comment:
        'What the vault and the marketplace can do is said once; MCP is one way to it, and no part of it.',
      severity: 'error',
      from: { path: product, pathNot: ['^(vault|admin-api)/mcp/', test] },
      to: { path: 'node_modules/@modelcontextprotocol/' },
    },
    {
      name: 'no-cycles',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'tests-are-not-shipped',
      severity: 'error',
      from: { path: product, pathNot: test },
      to: { path: ['^(test|bench)/', '\\.test\\.ts$'] },
    },
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    doNotFollow: { path: 'node_modules' },
    // Our own dist only: a package's is where its name is seen.
    exclude: { path: '^dist/|(^|/)node_modules/\\.cache/' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
    },
    builtInModules: { add: ['node:sqlite'] },
  },
}
