import { useEffect, useRef, useState } from 'preact/hooks'
import { hasUnsaved, type Leaving } from './unsaved.ts'

/** The current address, and navigation without reloading the page. */
export interface Path {
  readonly path: string
  readonly query: URLSearchParams
  readonly go: (path: string) => void
  /** Runs `then`. If the view has unsaved changes, the reader is asked first. */
  readonly leave: (then: () => void) => void
  /** The open question about unsaved changes. */
  readonly leaving: Leaving | undefined
}

/** Follows the address. Links below `root` navigate without a page load, unless the reader opens them in another tab. */
export function usePath(root: string): Path {
  const [at, setAt] = useState(() => location.pathname + location.search)
  const [leaving, setLeaving] = useState<Leaving>()
  /** The current history entry, and whether the next history move was already confirmed. */
  const shown = useRef({ entry: entryOf(history.state), isDecided: false })
  const leave = (then: () => void) => {
    if (!hasUnsaved()) return then()
    const close = () => setLeaving(undefined)
    setLeaving({
      stay: close,
      leave() {
        close()
        then()
      },
    })
  }
  const go = (to: string) => {
    shown.current.entry++
    history.pushState({ entry: shown.current.entry }, '', to)
    setAt(to)
    scrollTo(0, 0)
  }
  useEffect(() => {
    const back = () => {
      const moved = entryOf(history.state) - shown.current.entry
      const { isDecided } = shown.current
      shown.current.isDecided = false
      if (!isDecided && moved !== 0 && hasUnsaved()) {
        // The browser has already moved. It goes back to the view that is shown, and the reader is asked there.
        shown.current.isDecided = true
        history.go(-moved)
        return leave(() => {
          shown.current.isDecided = true
          history.go(moved)
        })
      }
      shown.current.entry += moved
      setAt(location.pathname + location.search)
    }
    const press = (event: MouseEvent) => {
      if (event.defaultPrevented || event.button !== 0) return
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
      const link = (event.target as Element).closest?.('a')
      if (!link || link.origin !== location.origin || link.target !== '' || link.hasAttribute('download'))
        return
      if (link.pathname !== root && !link.pathname.startsWith(`${root}/`)) return
      event.preventDefault()
      leave(() => {
        go(link.pathname + link.search)
        // The focus starts at the top of the new view, as after a page load.
        document.getElementById('main')?.focus()
      })
    }
    addEventListener('popstate', back)
    document.addEventListener('click', press)
    return () => {
      removeEventListener('popstate', back)
      document.removeEventListener('click', press)
    }
  }, [])
  const [path = root, search = ''] = at.split('?')
  return {
    path: path.replace(/\/+$/, '') || '/',
    query: new URLSearchParams(search),
    go,
    leave,
    leaving,
  }
}

const entryOf = (state: unknown): number => (Object(state) as { entry?: number }).entry ?? 0
