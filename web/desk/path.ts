import { useEffect, useState } from 'preact/hooks'

/** The address as views see it, and the way to another one without loading the page anew. */
export interface Path {
  readonly path: string
  readonly query: URLSearchParams
  readonly go: (path: string) => void
}

/** Follows the address; links below `root` change it without loading, unless they are opened elsewhere. */
export function usePath(root: string): Path {
  const [at, setAt] = useState(() => location.pathname + location.search)
  const go = (to: string) => {
    history.pushState(null, '', to)
    setAt(to)
    scrollTo(0, 0)
  }
  useEffect(() => {
    const back = () => setAt(location.pathname + location.search)
    const press = (event: MouseEvent) => {
      if (event.defaultPrevented || event.button !== 0) return
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
      const link = (event.target as Element).closest?.('a')
      if (!link || link.origin !== location.origin || link.target !== '' || link.hasAttribute('download'))
        return
      if (link.pathname !== root && !link.pathname.startsWith(`${root}/`)) return
      event.preventDefault()
      go(link.pathname + link.search)
      // As after a page was loaded: a reader begins at the top of what is new.
      document.getElementById('main')?.focus()
    }
    addEventListener('popstate', back)
    document.addEventListener('click', press)
    return () => {
      removeEventListener('popstate', back)
      document.removeEventListener('click', press)
    }
  }, [])
  const [path = root, search = ''] = at.split('?')
  return { path: path.replace(/\/+$/, '') || '/', query: new URLSearchParams(search), go }
}
