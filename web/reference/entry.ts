declare global {
  var SwaggerUIBundle: (options: object) => unknown
}

const dark = matchMedia('(prefers-color-scheme: dark)')
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', follow)
follow()

const script = document.createElement('script')
script.src = '/docs/api/ui/static/swagger-ui-bundle.js'
script.onload = () =>
  globalThis.SwaggerUIBundle({
    url: '/docs/api/ui/json',
    dom_id: '#swagger-ui',
    docExpansion: 'list',
  })
document.head.append(script)

export {}
