// Explicit-state model of the account of GPU memory that all processes of a container share.
//
// usage: accounting_model [quick|all|wrong|safe|deep|<row>] [-v]
//        (quick: seconds; all: 3 minutes, 4 GB of memory; deep: larger bounds, up to 20 GB; -v
//        prints the shortest counterexample; seats are sorted in each state, so that two processes
//        may change their numbers between two lines)
//
// Breadth-first search over every interleaving of processes, each memory operation a step of its
// own, with SIGKILL before any step, restart in any free slot, and a driver that gives a dead
// process's memory back at any later time. "holds" is for runs of ANY length within the bounds
// (seats for processes, slots, limit): operation numbers are only ever compared for equality, so
// they are renamed in each state (a counter that never wraps; the rows `wrap` have one that does).
// "NO n" comes with a shortest run of n steps (-v prints it).
//
// Protocols: T  that of plugin/share/account.cc: one word {total, number, slot, delta}
//            C  check, call the driver, add (what a library without reservation does)
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>
typedef int8_t i8;
constexpr int MP = 3, MS = 3;
enum { ABSENT, LIVE, KILLED };  // a killed process keeps its lock until the kernel drops it
enum { NOTHING, ALLOC, BACK, CLAIM, PLUGIN };  // what the steps are for
enum Pc : i8 {
  IDLE,
  RD,
  RD2,
  RD3,
  HL,
  RC,
  AP,
  DEC,
  SCAN,
  DEADQ,
  TRUTHQ,
  REAP,
  REAP2,
  REAP3,
  DRV,
  CLR,
  CLCAS,
  OWN,
  COMMIT,
  UNPUB,
  RBRD,
  RBSUM,
  VER,
  FIX,
  GAP,
  GAP2,
  DEADFIRST
};
struct Proc {
  i8 life, pc, aim, me, n, rt, rs, rd, rq, s, hu, hq, acc, T, seen, tries;
};
struct State {
  i8 tot, slot, d, q;
  i8 u[MS], uq[MS];
  i8 dying, scribbled;
  i8 pad[4];
  Proc p[MP];
};
static_assert(sizeof(State) % 8 == 0, "hashed by words");

struct Cfg {
  const char *name = "", *say = "", *want = "holds";
  char proto = 'T';
  int P = 2, S = 2, L = 2, max = 2, starts = 0;
  bool driver_first = false;  // the driver gives memory back before the kernel drops the lock
  bool strict = false;        // check I1 with the memory of the dead as well
  bool kills = true;
  bool plugin = false;  // the last seat is the plugin: no slot of its own memory; reaps; repairs
  bool claim_reaps = false;
  bool only_plugin = false;  // only the plugin reaps, and it looks at the driver first
  bool scribble = false;
  bool big = false;      // only by name or by "deep"
  bool threads = false;  // a process may have several seats: one slot, killed at once
  int wrap = 0;          // operation numbers modulo this
  int torn = 0;          // 0: 16-byte load; 1: low, high, low again; 2: low, high; 3: high, low
  bool eager = false;    // completes its own operation at once
  bool no_recheck = false, no_help = false, dead_first = false, keep_residue = false,
       zero_residue = false;
  bool early_back = false;  // gives back before the driver has freed
  bool plugin_sets_truth = false;
  bool fair = true;  // check I6
  bool i2 = true, i4 = true;
};
static Cfg C;
struct Succ {
  State s;
  const char* what;
  i8 p;
  bool progress;
  const char* bad;
};
static std::vector<Succ> out;

static int locked(const State& x, int s) {  // the seat that holds slot s, or -1
  for (int i = 0; i < C.P; i++)
    if (x.p[i].life != ABSENT && x.p[i].me == s) return i;
  return -1;
}
static int truth_of(const State& x, int s) {
  int t = 0;
  for (int i = 0; i < C.P; i++)
    if (x.p[i].life != ABSENT && x.p[i].me == s) t += x.p[i].T;
  return t;
}
static int pl() {
  return C.plugin ? C.P - 1 : -1;
}
static int clamp0(int v) {
  return v < 0 ? 0 : v;
}
static i8 fresh(const State& x, int near) {  // a number that is nowhere in the state
  if (C.wrap) return (i8)(near % C.wrap + 1);
  bool used[128] = {};
  used[(int)x.q] = true;
  for (int s = 0; s < C.S; s++) used[(int)x.uq[s]] = true;
  for (int i = 0; i < C.P; i++) used[(int)x.p[i].rq] = used[(int)x.p[i].hq] = true;
  for (int k = 1; k < 128; k++)
    if (!used[k]) return (i8)k;
  abort();
}
static void canon(State& x) {  // rename numbers, sort seats
  int n = C.P - (C.plugin ? 1 : 0);
  auto key = [&](const Proc& a) {
    Proc b = a;
    b.rq = b.hq = 0;
    return b;
  };
  for (int i = 1; i < n; i++)
    for (int j = i; j > 0; j--) {
      Proc a = key(x.p[j - 1]), b = key(x.p[j]);
      if (memcmp(&a, &b, sizeof a) > 0)
        std::swap(x.p[j - 1], x.p[j]);
      else
        break;
    }
  if (C.wrap) return;
  i8 map[128];
  memset(map, 0, sizeof map);
  i8 next = 1;
  auto ren = [&](i8& v) {
    if (v) {
      if (!map[(int)v]) map[(int)v] = next++;
      v = map[(int)v];
    }
  };
  ren(x.q);
  for (int s = 0; s < C.S; s++) ren(x.uq[s]);
  for (int i = 0; i < C.P; i++) {
    ren(x.p[i].rq);
    ren(x.p[i].hq);
  }
}
static void drop_r(Proc& p) {
  p.rt = p.rs = p.rd = p.rq = 0;
}
static void drop_h(Proc& p) {
  p.hu = p.hq = 0;
}
static void idle(Proc& p) {
  i8 life = p.life, me = p.me, T = p.T;
  memset(&p, 0, sizeof p);
  p.life = life;
  p.me = me;
  p.T = T;
}
static bool same_lo(const State& x, const Proc& p) {
  return x.q == p.rq && x.tot == p.rt;
}
static bool same_r(const State& x, const Proc& p) {
  return same_lo(x, p) && x.slot == p.rs && x.d == p.rd;
}
static int truth(const State& x) {
  int t = 0;
  for (int i = 0; i < C.P; i++) t += x.p[i].T;
  return t;
}
static int held_of(const State& x, int s) {  // T: what slot s holds, the last operation included
  int u = x.u[s];
  if (x.slot == s && x.uq[s] != x.q) u = clamp0(u + x.d);
  return u;
}
static int granted(const State& x) {
  if (C.proto == 'T') return x.tot;
  return truth(x);
}
static void see(State& x) {  // who asks and would not fit at this instant
  for (int i = 0; i < C.P; i++)
    if (x.p[i].life == LIVE && x.p[i].aim == ALLOC && x.p[i].pc != DRV && !x.p[i].seen &&
        granted(x) + x.p[i].n > C.L)
      x.p[i].seen = 1;
}
static bool tracks_dead() {
  return C.strict || C.only_plugin || C.scribble;
}
static void push(State y, const char* what, int p, bool progress = false,
                 const char* bad = nullptr) {
  if (C.proto == 'T' && p >= 0 &&
      !bad) {  // decisions from registers alone are no steps of their own
    Proc& a = y.p[p];
    if (a.pc == HL && (a.rs >= C.S || a.rs < 0 || C.no_help)) a.pc = DEC;
    if (a.pc == DEC && a.aim == PLUGIN) {
      a.pc = SCAN;
      a.s = 0;
      a.acc = 0;
    }
    if (a.pc == DEC && a.aim == ALLOC && a.rt + a.n > C.L && !C.only_plugin) {
      a.pc = C.dead_first ? DEADFIRST : SCAN;
      a.s = 0;
      if (C.dead_first) drop_r(a);
    }
    if (a.pc == SCAN && a.s >= C.S && a.aim == PLUGIN) a.pc = VER;
  }
  if (C.fair && !bad) see(y);
  out.push_back({y, what, (i8)p, progress, bad});
}
static void refuse(const State& x, int i, const char* what) {
  State y = x;
  bool bad = C.fair && !x.p[i].seen;
  idle(y.p[i]);
  push(y, what, i, true, bad ? "I6: refused although it fitted at every instant" : nullptr);
}
static bool dead(const State& x, int s) {
  return locked(x, s) < 0;
}

// ---- T
static void step_T(const State& x, int i) {
  State y = x;
  Proc& p = y.p[i];
  switch (p.pc) {
    case RD:  // 1  r := R
      if (C.torn == 3) {
        p.rs = x.slot;
        p.rd = x.d;
        p.pc = RD2;
        push(y, "reads R high", i);
        return;
      }
      p.rt = x.tot;
      p.rq = x.q;
      if (C.torn) {
        p.pc = RD2;
        push(y, "reads R low", i);
        return;
      }
      p.rs = x.slot;
      p.rd = x.d;
      p.pc = HL;
      push(y, "reads R", i);
      return;
    case RD2:
      if (C.torn == 3) {
        p.rt = x.tot;
        p.rq = x.q;
        p.pc = HL;
        push(y, "reads R low", i);
        return;
      }
      p.rs = x.slot;
      p.rd = x.d;
      p.pc = C.torn == 2 ? HL : RD3;
      push(y, "reads R high", i);
      return;
    case RD3:
      if (same_lo(x, p))
        p.pc = HL;
      else {
        p.pc = RD;
        drop_r(p);
      }
      push(y, "reads R low again", i);
      return;
    case HL:  // 2  h := slot[r.slot]
      if (p.rs >= C.S || p.rs < 0 || C.no_help) {
        p.pc = DEC;
        p.hu = p.hq = 0;
        push(y, "nothing to complete", i);
        return;
      }
      p.hu = x.u[p.rs];
      p.hq = x.uq[p.rs];
      if (p.hq == p.rq) {
        p.pc = DEC;
        drop_h(p);
      } else
        p.pc = C.no_recheck ? AP : RC;
      push(y, "reads the slot named in R", i);
      return;
    case RC:
      if (same_lo(x, p))
        p.pc = AP;
      else {
        p.pc = RD;
        drop_r(p);
        drop_h(p);
      }
      push(y, "checks that R is the same", i);
      return;  // 3
    case AP:   // 4  complete it
      if (x.u[p.rs] == p.hu && x.uq[p.rs] == p.hq) {
        y.u[p.rs] = (i8)clamp0(p.hu + p.rd);
        y.uq[p.rs] = p.rq;
      }
      p.pc = DEC;
      drop_h(p);
      push(y, "completes the operation in R", i);
      return;
    case DEC:
      if (p.aim == CLAIM) {
        p.hu = x.u[p.me];
        p.hq = x.uq[p.me];
        if (C.keep_residue) {
          idle(p);
          push(y, "takes the slot with what is in it", i, true);
          return;
        }
        if (C.zero_residue) {
          y.u[p.me] = 0;
          idle(p);
          push(y, "sets its slot to 0", i, true);
          return;
        }
        if (p.hu == 0) {
          idle(p);
          push(y, "its slot is empty", i, true);
        } else if (C.only_plugin && !C.claim_reaps) {
          memset(&p, 0, sizeof p);
          push(y, "its slot has a residue: leaves it", i, true);
        } else {
          p.pc = CLCAS;
          push(y, "its slot has a residue", i);
        }
        return;
      }
      if (p.aim == PLUGIN) {
        p.pc = SCAN;
        p.s = 0;
        p.acc = 0;
        push(y, "plugin begins to look", i);
        return;
      }
      if (p.aim == OWN) {
        idle(p);
        push(y, "done", i, true);
        return;
      }
      if (p.aim == ALLOC && p.rt + p.n > C.L) {
        if (C.only_plugin) {
          refuse(x, i, "refused");
          return;
        }
        p.pc = C.dead_first ? DEADFIRST : SCAN;
        p.s = 0;
        if (C.dead_first) drop_r(p);
        push(y, "does not fit, looks for the dead", i);
        return;
      }
      if (same_r(x, p)) {  // 5  the one step that counts
        y.tot = (i8)clamp0(p.rt + p.n);
        y.slot = p.me;
        y.d = p.n;
        y.q = fresh(x, x.q);
        if (p.aim == ALLOC) {
          p.pc = DRV;
          drop_r(p);
          push(y, "CAS R: granted", i, true);
          return;
        }
        if (C.early_back && p.aim == BACK && p.acc) {
          i8 n = p.n;
          idle(p);
          p.pc = CLR;
          p.n = n;
          push(y, "CAS R: given back, driver not yet", i, true);
          return;
        }
        idle(p);
        push(y, "CAS R: given back", i, true);
        return;
      }
      p.pc = RD;
      drop_r(p);
      push(y, "CAS R fails", i);
      return;
    case CLR:
      p.T = (i8)(p.T + p.n);
      idle(p);
      push(y, "driver frees", i, true);
      return;
    case CLCAS:
      if (same_r(x, p)) {
        y.tot = (i8)clamp0(p.rt - p.hu);
        y.slot = p.me;
        y.d = (i8)-p.hu;
        y.q = fresh(x, x.q);
        p.pc = RD;
        drop_r(p);
        drop_h(p);
        push(y, "CAS R: takes the residue out", i, true);
        return;
      }
      p.pc = RD;
      drop_r(p);
      drop_h(p);
      push(y, "CAS R fails", i);
      return;
    case DEADFIRST:  // wrong: death is asked before R is read
      if (p.s >= C.S) {
        refuse(x, i, "refused");
        return;
      }
      if (dead(x, p.s)) {
        p.pc = RBRD;
        push(y, "finds an owner dead", i);
      } else {
        p.s++;
        push(y, "finds an owner alive", i);
      }
      return;
    case RBRD:
      p.rt = x.tot;
      p.rs = x.slot;
      p.rd = x.d;
      p.rq = x.q;
      if (p.rs < C.S && x.uq[p.rs] != x.q) {
        y.u[p.rs] = (i8)clamp0(x.u[p.rs] + x.d);
        y.uq[p.rs] = x.q;
      }
      p.pc = RBSUM;
      push(y, "reads R and completes it", i);
      return;
    case RBSUM:
      p.hu = x.u[p.s];
      p.hq = x.uq[p.s];
      if (!p.hu) {
        p.s++;
        drop_h(p);
        drop_r(p);
        p.pc = DEADFIRST;
      } else
        p.pc = REAP;
      push(y, "reads the slot", i);
      return;
    case SCAN:
      if (p.s >= C.S) {
        if (p.aim == PLUGIN) {
          p.pc = VER;
          push(y, "plugin has looked at all", i);
          return;
        }
        refuse(x, i, "refused");
        return;
      }
      p.hu = x.u[p.s];
      p.hq = 0;
      if (p.aim == PLUGIN) p.acc = (i8)(p.acc + p.hu);
      if (p.hu == 0 || (C.plugin && p.s == C.S - 1)) {
        p.s++;
        drop_h(p);
      } else
        p.pc = DEADQ;
      push(y, "reads a slot", i);
      return;
    case DEADQ:
      if (dead(x, p.s))
        p.pc = C.only_plugin ? TRUTHQ : REAP;
      else {
        p.s++;
        p.pc = SCAN;
        drop_h(p);
      }
      push(y, dead(x, x.p[i].s) ? "its owner is dead" : "its owner lives", i);
      return;
    case TRUTHQ:
      if (x.dying == 0)
        p.pc = REAP;
      else {
        p.s++;
        p.pc = SCAN;
        drop_h(p);
      }
      push(y, "asks the driver", i);
      return;
    case REAP:
      if (same_r(x, p)) {
        y.tot = (i8)clamp0(p.rt - p.hu);
        y.slot = p.s;
        y.d = (i8)-p.hu;
        y.q = fresh(x, x.q);
        drop_r(p);
        drop_h(p);
        p.s = 0;
        p.acc = 0;
        p.pc = RD;
        push(y, "CAS R: reaps", i, true);
        return;
      }
      drop_r(p);
      drop_h(p);
      p.s = 0;
      p.acc = 0;
      p.pc = RD;
      push(y, "CAS R fails", i);
      return;
    case VER:  // plugin: is R still the same, and is total the sum?
      if (!same_lo(x, p)) {
        idle(p);
        push(y, "R moved: no verdict", i, true);
        return;
      }
      if (p.acc != p.rt) {
        p.pc = FIX;
        push(y, "total is not the sum", i, false,
             x.scribbled ? nullptr : "plugin finds a fault that is none");
        return;
      }
      p.pc = GAP;
      push(y, "total is the sum", i);
      return;
    case FIX:
      if (same_r(x, p)) {
        y.tot = p.acc;
        y.slot = MS;
        y.d = 0;
        y.q = fresh(x, x.q);
      }
      idle(p);
      push(y, "CAS R: total := sum", i, true);
      return;
    case GAP:
      p.hu = (i8)(truth(x) + x.dying);
      p.tries = x.dying != 0;
      p.pc = GAP2;
      push(y, "asks the driver", i);
      return;
    case GAP2: {  // ... and if R has not moved meanwhile:
      if (!same_lo(x, p)) {
        idle(p);
        push(y, "R moved: no verdict", i, true);
        return;
      }
      int mine = x.u[C.S - 1], gap = clamp0(p.hu - (p.acc - mine)), delta = gap - mine;
      if (!x.scribbled && gap && !p.tries) {
        push(y, "gap", i, false, "plugin finds a gap that is none");
        return;
      }
      if (!x.scribbled) {
        idle(p);
        push(y, "no gap", i, true);
        return;
      }
      if (delta && same_r(x, p)) {
        y.tot = (i8)clamp0(p.rt + delta);
        y.slot = (i8)(C.S - 1);
        y.d = (i8)delta;
        y.q = fresh(x, x.q);
      }
      idle(p);
      push(y, "CAS R: plugin's own slot := gap", i, true);
      return;
    }
  }
  abort();
}
// ---- C: check, call, add
static void step_C(const State& x, int i) {
  State y = x;
  Proc& p = y.p[i];
  switch (p.pc) {
    case CLR:
      idle(p);
      push(y, "starts", i, true);
      return;
    case RD:
      if (x.tot + p.n <= C.L) {
        p.pc = DRV;
        push(y, "reads the account: fits", i);
      } else
        refuse(x, i, "refused");
      return;
    case COMMIT:
      y.tot = (i8)(x.tot + p.n);
      y.u[p.me] = (i8)(x.u[p.me] + p.n);
      idle(p);
      push(y, "adds to the account", i, true);
      return;
    case UNPUB:
      y.tot = (i8)clamp0(x.tot + p.n);
      idle(p);
      push(y, "subtracts", i, true);
      return;
  }
  abort();
}

static void begin_alloc(State& y, int i, int n) {
  Proc& p = y.p[i];
  p.aim = ALLOC;
  p.n = (i8)n;
  p.s = 0;
  p.acc = 0;
  switch (C.proto) {
    case 'T':
      p.pc = RD;
      break;
    case 'C':
      p.pc = RD;
      break;
  }
}
static void begin_back(Proc& p, int n) {  // after the driver has freed n, or has refused it
  p.aim = BACK;
  p.n = (i8)-n;
  p.s = 0;
  p.acc = 0;
  p.seen = 0;
  switch (C.proto) {
    case 'T':
      p.pc = RD;
      break;
    case 'C':
      p.pc = UNPUB;
      break;
  }
}
static void steps(const State& x, int i) {  // steps of process i, its choice of a call excluded
  const Proc& a = x.p[i];
  if (a.life != LIVE || a.pc == IDLE) return;
  if (a.pc == DRV) {
    State y = x;
    Proc& p = y.p[i];
    int n = p.n;
    p.T = (i8)(p.T + n);
    if (C.proto == 'C') {
      p.pc = COMMIT;
      push(y, "driver allocates", i);
    } else {
      idle(p);
      push(y, "driver allocates", i, true);
    }
    y = x;
    Proc& q = y.p[i];
    if (C.proto == 'C') {
      idle(q);
      push(y, "driver fails", i, true);
      return;
    }
    begin_back(q, n);
    push(y, "driver fails", i);
    return;
  }
  switch (C.proto) {
    case 'T':
      step_T(x, i);
      break;
    case 'C':
      step_C(x, i);
      break;
  }
}
static void successors(const State& x) {
  out.clear();
  for (int i = 0; i < C.P; i++) {
    const Proc& a = x.p[i];
    bool twin =
        i > 0 && i != pl() && !memcmp(&x.p[i], &x.p[i - 1], sizeof(Proc)) && a.life == ABSENT;
    if (a.life == ABSENT && !twin) {
      if (i == pl()) {
        State y = x;
        y.p[i].life = LIVE;
        y.p[i].me = -1;
        push(y, "plugin starts", i, true);
      } else
        for (int s = 0; s < C.S - (C.plugin ? 1 : 0); s++)
          if (dead(x, s)) {
            State y = x;
            Proc& p = y.p[i];
            p.life = LIVE;
            p.me = (i8)s;
            p.aim = CLAIM;
            p.pc = C.proto == 'T' ? RD : CLR;
            static const char* w[] = {"starts, locks slot 0", "starts, locks slot 1",
                                      "starts, locks slot 2", "starts, locks slot 3"};
            push(y, w[s], i, true);
          }
      if (C.threads)
        for (int j = 0; j < C.P; j++)
          if (x.p[j].life == LIVE && x.p[j].aim != CLAIM) {
            State y = x;
            y.p[i].life = LIVE;
            y.p[i].me = x.p[j].me;
            push(y, "begins as a thread", i, true);
          }
    }
    if (a.life == LIVE && a.pc == IDLE) {
      if (i == pl()) {
        State y = x;
        y.p[i].aim = PLUGIN;
        y.p[i].pc = RD;
        push(y, "plugin begins a pass", i, true);
        if (C.plugin_sets_truth) {
          State z = x;
          z.tot = (i8)(truth(x) + x.dying);
          z.slot = MS;
          z.d = 0;
          z.q = fresh(x, x.q);
          push(z, "plugin sets reserved := truth", i, true);
        }
      } else {
        for (int n = 1; n <= C.max; n++) {
          State y = x;
          begin_alloc(y, i, n);
          static const char* w[] = {"", "wants 1", "wants 2", "wants 3", "wants 4"};
          push(y, w[n], i, true);
        }
        for (int n = 1; n <= a.T; n++) {
          State y = x;
          Proc& p = y.p[i];
          if (C.early_back) {
            begin_back(p, n);
            p.acc = 1;
            push(y, "frees: gives back first", i, true);
          } else {
            p.T = (i8)(p.T - n);
            begin_back(p, n);
            push(y, n == 1 ? "driver frees 1" : "driver frees 2", i, true);
          }
        }
      }
    }
    steps(x, i);
    if (a.life == LIVE && C.kills) {
      State y = x;
      Proc& p = y.p[i];
      idle(p);
      if (i == pl()) {
        memset(&p, 0, sizeof p);
        push(y, "plugin is killed", i, true);
      } else {
        p.life = KILLED;
        if (C.threads)
          for (int j = 0; j < C.P; j++)
            if (x.p[j].life == LIVE && x.p[j].me == a.me) {
              idle(y.p[j]);
              y.p[j].life = KILLED;
            }
        push(y, "is killed", i, true);
      }
    }
    if (a.life == KILLED) {
      if (a.T && tracks_dead()) {
        State y = x;
        y.p[i].T = 0;
        push(y, "driver gives its memory back", i, true);
      }
      if (!a.T || !C.driver_first) {
        State y = x;
        if (tracks_dead()) y.dying = (i8)std::min(x.dying + a.T, C.strict ? C.L + 1 : C.L);
        int me = a.me;
        for (int j = 0; j < C.P; j++)
          if (j == i || (C.threads && x.p[j].life == KILLED && x.p[j].me == me))
            memset(&y.p[j], 0, sizeof(Proc));
        push(y, "kernel drops its lock", i, true);
      }
    }
  }
  if (x.dying) {
    State y = x;
    y.dying = 0;
    push(y, "driver gives the memory of the dead back", -1, true);
  }
  if (C.scribble && !x.scribbled) {
    for (int v = 0; v <= C.L + 1; v++) {
      State y = x;
      y.scribbled = 1;
      if (v != x.tot) {
        y.tot = (i8)v;
        y.q = fresh(x, x.q);
        push(y, "tenant writes total", -1, true);
      }
      for (int s = 0; s < C.S; s++)
        if (v != x.u[s]) {
          y = x;
          y.scribbled = 1;
          y.u[s] = (i8)v;
          push(y, "tenant writes a slot", -1, true);
          y.uq[s] = fresh(y, y.uq[s]);
          push(y, "tenant writes a slot and its number", -1, true);
        }
    }
    for (int s = 0; s <= C.S; s++)
      for (int d = -C.L; d <= C.L; d++) {
        State y = x;
        y.scribbled = 1;
        y.slot = (i8)(s == C.S ? MS : s);
        y.d = (i8)d;
        y.q = fresh(x, x.q);
        push(y, "tenant writes R", -1, true);
      }
  }
}
// Runs process i alone until its call is over. Returns false if that takes more than `bound` steps.
// Takes the driver's success.
static bool solo(State& x, int i, int bound, int* used, bool* refused) {
  int k = 0;
  while (x.p[i].pc != IDLE) {
    if (++k > bound) return false;
    out.clear();
    steps(x, i);
    Succ s = out[0];
    if (refused && !strncmp(s.what, "refused", 7)) *refused = true;
    if (refused && !strncmp(s.what, "retracts, refused", 17)) *refused = true;
    x = s.s;
    if (x.p[i].life != LIVE) break;
  }
  if (used && k > *used) *used = k;
  return true;
}
static const char* check(const State& x) {
  int t = 0;
  for (int i = 0; i < C.P; i++) t += x.p[i].T;
  if (x.scribbled) return nullptr;
  if (t > C.L) return "I1: live processes hold more than the limit";
  if (C.strict && t + x.dying > C.L) return "I1s: with the memory of the dead, more than the limit";
  if (C.proto == 'T') {
    int sum = 0;
    for (int s = 0; s < C.S; s++) {
      sum += held_of(x, s);
      int o = locked(x, s);
      if (o >= 0 && truth_of(x, s) > held_of(x, s) && !C.early_back)
        return "a slot holds less than its owner has";
    }
    if (sum != x.tot && !C.plugin_sets_truth) return "I2: total is not the sum of the slots";
  }
  return nullptr;
}
static const char* check_quiet(const State& x) {
  for (int i = 0; i < C.P; i++)
    if (x.p[i].life == KILLED || (x.p[i].life == LIVE && x.p[i].pc != IDLE)) return nullptr;
  if (x.dying) return nullptr;
  int t = truth(x);
  if (C.i4) {  // somebody asks for all that is left
    int who = -1;
    State y = x;
    if (C.only_plugin || x.scribbled) {
      State z = x;
      int w = pl();
      memset(&z.p[w], 0, sizeof(Proc));
      z.p[w].life = LIVE;
      z.p[w].me = -1;
      for (int k = 0; k < 8; k++) {
        z.p[w].aim = PLUGIN;
        z.p[w].pc = RD;
        if (!solo(z, w, 500, nullptr, nullptr)) return "I3: the plugin does not end";
      }
      y = z;
      if (x.scribbled) {
        int sum = 0;
        for (int s = 0; s < C.S; s++) sum += held_of(y, s);
        if (sum != y.tot) return "repair: total is not the sum";
        if (y.tot < t) return "repair: account below the truth";
        for (int i = 0; i < C.P - 1; i++) memset(&y.p[i], 0, sizeof(Proc));
        for (int k = 0; k < 8; k++) {
          y.p[w].aim = PLUGIN;
          y.p[w].pc = RD;
          if (!solo(y, w, 500, nullptr, nullptr)) return "I3: the plugin does not end";
        }
        return y.tot == 0 ? nullptr : "repair: not 0 after everybody has ended";
      }
    }
    for (int i = 0; i < C.P; i++)
      if (i != pl() && x.p[i].life == LIVE) who = i;
    if (who < 0) {
      who = 0;
      for (int s = 0; s < C.S - (C.plugin ? 1 : 0); s++)
        if (dead(y, s) && (!C.only_plugin || held_of(y, s) == 0)) {
          Proc& p = y.p[who];
          memset(&p, 0, sizeof p);
          p.life = LIVE;
          p.me = (i8)s;
          p.aim = CLAIM;
          p.pc = C.proto == 'T' ? RD : CLR;
          break;
        }
      if (!solo(y, who, 500, nullptr, nullptr)) return "I3: start does not end";
    }
    int n = C.L - t;
    if (n > 0) {
      bool refused = false;
      begin_alloc(y, who, n);
      y.p[who].seen = 1;
      if (!solo(y, who, 500, nullptr, &refused)) return "I3: a call alone does not end";
      if (refused) return "I4: refused after quiet although it fits (capacity is lost)";
    }
  }
  if (C.i2 && !x.scribbled) {
    for (int s = 0; s < C.S; s++) {
      int o = locked(x, s);
      if (o < 0) continue;
      int have = held_of(x, s);
      if (have != truth_of(x, s)) return "I2: after quiet a slot is not the truth";
    }
  }
  return nullptr;
}
struct Search {
  std::vector<State> st;
  std::vector<uint32_t> from;
  std::vector<const char*> how;
  std::vector<i8> who;
  std::vector<uint32_t> table;
  uint64_t mask;
  static uint64_t hash(const State& x) {
    uint64_t w[sizeof(State) / 8], h = 0x9e3779b97f4a7c15ull;
    memcpy(w, &x, sizeof x);
    for (uint64_t v : w) {
      h ^= v;
      h *= 0xff51afd7ed558ccdull;
      h ^= h >> 32;
    }
    return h;
  }
  Search() : table(1 << 20, 0), mask((1 << 20) - 1) {}
  void grow() {
    table.assign((mask + 1) * 2, 0);
    mask = table.size() - 1;
    for (uint32_t k = 0; k < st.size(); k++) {
      uint64_t h = hash(st[k]) & mask;
      while (table[h]) h = (h + 1) & mask;
      table[h] = k + 1;
    }
  }
  uint32_t find(const State& x) {
    uint64_t h = hash(x) & mask;
    while (table[h]) {
      if (!memcmp(&st[table[h] - 1], &x, sizeof x)) return table[h] - 1;
      h = (h + 1) & mask;
    }
    return UINT32_MAX;
  }
  bool add(const State& x, uint32_t f, const char* w, i8 p) {
    uint64_t h = hash(x) & mask;
    while (table[h]) {
      if (!memcmp(&st[table[h] - 1], &x, sizeof x)) return false;
      h = (h + 1) & mask;
    }
    st.push_back(x);
    from.push_back(f);
    how.push_back(w);
    who.push_back(p);
    table[h] = (uint32_t)st.size();
    if (st.size() * 2 > table.size()) grow();
    return true;
  }
};
static void show(const State& x) {
  printf("   tot=%d", x.tot);
  if (C.proto == 'T') printf(" last=(slot %d, %+d, #%d)", x.slot, x.d, x.q);
  printf(" slots:");
  for (int s = 0; s < C.S; s++) {
    printf(" %d", x.u[s]);
    if (C.proto == 'T') printf("#%d", x.uq[s]);
  }
  printf(" truth:");
  for (int i = 0; i < C.P; i++)
    if (x.p[i].life)
      printf(" %d@%d%s", x.p[i].T, x.p[i].me, x.p[i].life == KILLED ? "(killed)" : "");
  if (x.dying) printf(" dead: %d", x.dying);
  printf("\n");
}
static void trace(Search& S, uint32_t k, const char* last, int lastp) {
  std::vector<uint32_t> path;
  for (uint32_t j = k; j != UINT32_MAX; j = S.from[j]) path.push_back(j);
  int n = 0;
  for (size_t a = path.size(); a-- > 0;) {
    if (S.how[path[a]]) {
      printf("   %2d seat %d %-40s", ++n, S.who[path[a]], S.how[path[a]]);
      show(S.st[path[a]]);
    }
  }
  if (last) printf("   %2d seat %d %s\n", ++n, lastp, last);
}
static uint64_t all_states = 0;
static int rows_bad = 0;
static void row(const Cfg& c, bool verbose, bool deep) {
  C = c;
  auto t0 = std::chrono::steady_clock::now();
  Search S;
  State x;
  memset(&x, 0, sizeof x);
  x.slot = MS;
  x.q = 1;
  for (int s = 0; s < C.S; s++) x.uq[s] = (i8)(C.wrap ? 1 : 2 + s);
  if (C.proto == 'T')
    for (int s = 0; s < C.S; s++) x.uq[s] = 1;  // as the plugin writes a new file
  canon(x);
  S.add(x, UINT32_MAX, nullptr, 0);
  const char *bad = nullptr, *lastw = nullptr;
  uint32_t at = 0;
  int steps_n = 0, lastp = 0;
  size_t cap = 120000000;
  std::vector<Succ> mine;
  for (uint32_t k = 0; k < S.st.size() && !bad; k++) {
    State y = S.st[k];
    bad = check(y);
    if (!bad) bad = check_quiet(y);
    if (bad) {
      at = k;
      break;
    }
    successors(y);
    mine.swap(out);
    for (auto& s : mine) {
      if (s.bad) {
        bad = s.bad;
        at = k;
        lastw = s.what;
        lastp = s.p;
        break;
      }
      canon(s.s);
      S.add(s.s, k, s.what, s.p);
    }
    if (S.st.size() > cap) {
      bad = "STOPPED: too many states";
      at = k;
    }
  }
  char result[256], extra[160] = "";
  if (bad) {
    for (uint32_t j = at; j != UINT32_MAX && S.how[j]; j = S.from[j]) steps_n++;
    if (lastw) steps_n++;
  }
  if (!bad && deep) {
    // I3: (a) alone, a call ends; (b) steps that complete no operation form no circle: whoever
    // repeats, repeats because another has completed one
    int most = 0;
    const char* b2 = nullptr;
    for (uint32_t k = 0; k < S.st.size() && !b2; k++)
      for (int i = 0; i < C.P; i++)
        if (S.st[k].p[i].life == LIVE && S.st[k].p[i].pc != IDLE) {
          State y = S.st[k];
          if (!solo(y, i, 400, &most, nullptr)) {
            b2 = "I3: alone, a call does not end";
            at = k;
          }
        }
    std::vector<uint8_t> colour(S.st.size(), 0);
    std::vector<uint16_t> depth(S.st.size(), 0);
    int longest = 0;
    struct F {
      uint32_t k;
      std::vector<uint32_t> next;
      size_t i;
    };
    std::vector<F> stack;
    auto kids = [&](uint32_t k) {
      std::vector<uint32_t> v;
      State y = S.st[k];
      out.clear();
      for (int i = 0; i < C.P; i++) steps(y, i);
      for (auto& s : out)
        if (!s.progress && !s.bad) {
          canon(s.s);
          uint32_t f = S.find(s.s);
          if (f != UINT32_MAX) v.push_back(f);
        }
      return v;
    };
    for (uint32_t r = 0; r < S.st.size() && !b2; r++)
      if (!colour[r]) {
        stack.push_back({r, kids(r), 0});
        colour[r] = 1;
        while (!stack.empty() && !b2) {
          F& f = stack.back();
          if (f.i < f.next.size()) {
            uint32_t c2 = f.next[f.i++];
            if (colour[c2] == 1) {
              b2 = "I3: a circle of steps in which nothing is completed";
              at = c2;
            } else if (!colour[c2]) {
              colour[c2] = 1;
              stack.push_back({c2, kids(c2), 0});
            } else if (depth[f.k] < depth[c2] + 1)
              depth[f.k] = depth[c2] + 1;
          } else {
            uint32_t k = f.k;
            colour[k] = 2;
            if (depth[k] > longest) longest = depth[k];
            stack.pop_back();
            if (!stack.empty()) {
              uint32_t q = stack.back().k;
              if (depth[q] < depth[k] + 1) depth[q] = depth[k] + 1;
            }
          }
        }
      }
    if (b2) {
      bad = b2;
      for (uint32_t j = at; j != UINT32_MAX && S.how[j]; j = S.from[j]) steps_n++;
    } else
      snprintf(extra, sizeof extra,
               "; alone <= %d steps, <= %d steps of all without a completed one", most, longest);
  }
  all_states += S.st.size();
  double sec = std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count();
  if (bad)
    snprintf(result, sizeof result, "NO %d  %s", steps_n, bad);
  else
    snprintf(result, sizeof result, "holds%s", extra);
  bool ok = !strncmp(c.want, bad ? "NO" : "holds", bad ? 2 : 5);
  if (!ok) rows_bad++;
  printf("%-20s %d seats%s, %d slots, limit %d | %10zu states %6.1f s | %s%s\n", c.name, C.P,
         C.plugin ? " (plugin)" : "", C.S, C.L, S.st.size(), sec, result,
         ok ? "" : "   <-- NOT AS EXPECTED");
  if (verbose && bad) {
    printf("   %s\n", c.say);
    trace(S, at, lastw, lastp);
  }
  fflush(stdout);
}
static std::vector<Cfg> rows() {
  std::vector<Cfg> v;
  auto add = [&](const char* name, const char* want, std::function<void(Cfg&)> f) {
    Cfg c;
    c.name = name;
    c.want = want;
    f(c);
    v.push_back(c);
  };
  // wrong ones
  add("check-call-add", "NO", [](Cfg& c) {
    c.proto = 'C';
    c.kills = false;
    c.fair = false;
    c.i4 = false;
    c.i2 = false;
  });
  add("T-no-help", "NO", [](Cfg& c) { c.no_help = true; });
  add("T-no-recheck", "NO", [](Cfg& c) { c.no_recheck = true; });
  add("T-dead-first", "NO", [](Cfg& c) { c.dead_first = true; });
  add("T-keep-residue", "NO", [](Cfg& c) { c.keep_residue = true; });
  add("T-zero-residue", "NO", [](Cfg& c) { c.zero_residue = true; });
  add("T-high-first", "NO", [](Cfg& c) { c.torn = 3; });
  add("T-early-back", "NO", [](Cfg& c) { c.early_back = true; });
  add("T-wrap-2", "NO", [](Cfg& c) { c.wrap = 2; });
  add("T-wrap-4", "NO", [](Cfg& c) { c.wrap = 4; });
  add("T-plugin-sets-truth", "NO", [](Cfg& c) {
    c.plugin = true;
    c.P = 3;
    c.S = 3;
    c.plugin_sets_truth = true;
  });
  add("T-driver-late", "NO", [](Cfg& c) { c.strict = true; });
  // the protocol
  add("T", "holds", [](Cfg&) {});
  add("T-two-loads", "holds", [](Cfg& c) { c.torn = 2; });
  add("T-limit-3", "holds", [](Cfg& c) {
    c.L = 3;
    c.max = 3;
  });
  add("T-driver-first", "holds", [](Cfg& c) {
    c.driver_first = true;
    c.strict = true;
  });
  add("T-plugin", "holds", [](Cfg& c) {
    c.plugin = true;
    c.P = 3;
    c.S = 3;
    c.L = 1;
    c.max = 1;
  });
  add("T-only-plugin", "holds", [](Cfg& c) {
    c.plugin = true;
    c.only_plugin = true;
    c.strict = true;
    c.P = 3;
    c.S = 3;
    c.L = 1;
    c.max = 1;
  });
  add("T-threads", "holds", [](Cfg& c) {
    c.threads = true;
    c.L = 1;
    c.max = 1;
    c.P = 3;
  });
  add("T-only-plugin-claim", "NO", [](Cfg& c) {
    c.plugin = true;
    c.only_plugin = true;
    c.claim_reaps = true;
    c.strict = true;
    c.P = 3;
    c.S = 3;
    c.L = 1;
    c.max = 1;
  });
  add("T-scribble", "holds", [](Cfg& c) {
    c.plugin = true;
    c.scribble = true;
    c.P = 2;
    c.S = 2;
    c.fair = false;
  });
  add("T-3", "holds", [](Cfg& c) {
    c.P = 3;
    c.S = 3;
    c.L = 1;
    c.max = 1;
  });
  add("T-3-two-loads", "holds", [](Cfg& c) {
    c.P = 3;
    c.S = 3;
    c.L = 1;
    c.max = 1;
    c.torn = 2;
    c.big = true;
  });
  add("T-threads-limit-2", "holds", [](Cfg& c) {
    c.threads = true;
    c.P = 3;
    c.big = true;
  });
  add("T-3-limit-2", "holds", [](Cfg& c) {
    c.P = 3;
    c.S = 3;
    c.big = true;
  });
  return v;
}
// The rows of a test: all wrong variants, and the protocol with bounds that take seconds.
static bool is_quick(const Cfg& c) {
  for (const char* name : {"T", "T-two-loads", "T-driver-first", "T-threads"})
    if (!strcmp(c.name, name)) return true;
  return !strncmp(c.want, "NO", 2);
}
static bool is_wanted(const Cfg& c, const std::string& what) {
  const bool wrong = !strncmp(c.want, "NO", 2);
  if (what == "quick") return is_quick(c);
  if (what == "all") return !c.big;
  if (what == "wrong") return wrong;
  if (what == "safe") return !wrong && !c.big;
  if (what == "deep") return c.big;
  return what == c.name;
}
int main(int argc, char** argv) {
  std::string what = "all";
  bool verbose = false;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "-v"))
      verbose = true;
    else
      what = argv[i];
  }
  int done = 0;
  for (auto& c : rows()) {
    if (!is_wanted(c, what)) continue;
    row(c, verbose, strncmp(c.want, "NO", 2) != 0);
    done++;
  }
  printf("%llu states in all\n%d passed, %d failed\n", (unsigned long long)all_states,
         done - rows_bad, rows_bad);
  return rows_bad != 0 || done == 0;
}
