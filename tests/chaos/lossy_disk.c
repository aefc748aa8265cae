/* A disk that can lose what was not fsynced: loaded into a process by LD_PRELOAD, it writes down every change below one
 * folder, in order and with the bytes, and what was made durable when. lossy_disk.py reads the record and can put the
 * folder back to what a power cut would have left. It can also kill the process right before or after its Nth durable
 * effect, refuse growth as a full disk does, and move the wall clock that the process sees.
 *
 * Changes and their records are made under one lock (of threads and of processes), so that the record's order is the
 * order in which things happened. The record goes through the page cache: it survives the death of its writer.
 *
 * Not followed: memory maps (SQLite maps only its -shm, which need not survive), and files and folders that are not
 * below the watched one. fsync itself is not passed on: durable is what the record says is durable.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum op { OP_CREATE = 1, OP_WRITE, OP_TRUNCATE, OP_SYNC, OP_RENAME, OP_UNLINK, OP_MKDIR, OP_RMDIR, OP_LINK };
enum side { BEFORE = 0, AFTER = 1 };
#define FILES_MAX 65536

/* Shared with lossy_disk.py, which knows the same layout. */
struct control {
    uint64_t effects;   /* durable effects so far */
    uint64_t crash_at;  /* which of them kills; 0: none */
    uint32_t side;      /* before or after it */
    uint32_t full;      /* nothing may grow */
    uint32_t sync_us;   /* how long an fsync takes */
    uint32_t crashed;   /* pid of the process that was killed */
    uint32_t lies;      /* fsync answers and makes nothing durable */
    uint32_t unused;
    int64_t ahead_s;    /* of the machine's wall clock is what these processes see */
};

struct header {
    uint32_t size; /* of the whole record */
    uint32_t op;
    uint64_t ino;
    uint64_t offset;
    uint32_t path_bytes;
    uint32_t target_bytes;
};

struct file {
    unsigned char known, watched, every_write;
    ino_t ino;
};

static struct control *control;
static char root[PATH_MAX];
static size_t root_bytes;
static int log_fd = -1, lock_fd = -1;
static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;
static struct file files[FILES_MAX];

#define REAL(name)                                       \
    ({                                                   \
        static __typeof__(&name) found;                  \
        if (!found) found = (__typeof__(&name))real(#name); \
        found;                                           \
    })
static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) abort();
    return found;
}

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("LOSSY_DISK_ROOT"), *beside = getenv("LOSSY_DISK_CONTROL");
    char path[PATH_MAX];
    if (folder == NULL || beside == NULL || realpath(folder, root) == NULL) return;
    root_bytes = strlen(root);
    snprintf(path, sizeof path, "%s/control", beside);
    lock_fd = REAL(open)(path, O_RDWR | O_CLOEXEC);
    snprintf(path, sizeof path, "%s/log", beside);
    log_fd = REAL(open)(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (lock_fd < 0 || log_fd < 0) abort();
    control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, lock_fd, 0);
    if (control == MAP_FAILED) abort();
}

static void enter(void) {
    pthread_mutex_lock(&threads);
    while (flock(lock_fd, LOCK_EX) != 0 && errno == EINTR) continue;
}

static void leave(void) {
    int kept = errno;
    flock(lock_fd, LOCK_UN);
    pthread_mutex_unlock(&threads);
    errno = kept;
}

static void record(enum op op, uint64_t ino, uint64_t offset, const char *path, const char *target, const void *data,
                   size_t bytes) {
    struct header head = {.op = op, .ino = ino, .offset = offset};
    int kept = errno;
    head.path_bytes = path ? strlen(path) : 0;
    head.target_bytes = target ? strlen(target) : 0;
    head.size = sizeof head + head.path_bytes + head.target_bytes + bytes;
    struct iovec parts[] = {{&head, sizeof head},
                            {(void *)path, head.path_bytes},
                            {(void *)target, head.target_bytes},
                            {(void *)data, bytes}};
    if (REAL(writev)(log_fd, parts, 4) != (ssize_t)head.size) abort();
    errno = kept;
}

static void die(void) {
    control->crashed = getpid();
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Around each durable effect, inside the lock. */
static uint64_t effect(void) {
    uint64_t number = ++control->effects;
    if (control->crash_at == number && control->side == BEFORE) die();
    return number;
}

static void effected(uint64_t number) {
    if (control->crash_at == number && control->side == AFTER) die();
}

static int below(const char *path) {
    return strncmp(path, root, root_bytes) == 0 && (path[root_bytes] == '/' || path[root_bytes] == 0);
}

static int passing(const char *path) {
    size_t bytes = strlen(path);
    return bytes >= 4 && strcmp(path + bytes - 4, "-shm") == 0;
}

/* The absolute path, if it is below the folder. */
static const char *watched_path(int folder_fd, const char *path, char *buffer) {
    if (control == NULL || path == NULL) return NULL;
    if (path[0] != '/') {
        char link[64];
        ssize_t bytes;
        if (folder_fd == AT_FDCWD)
            snprintf(link, sizeof link, "/proc/self/cwd");
        else
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder_fd);
        bytes = readlink(link, buffer, PATH_MAX - 1);
        if (bytes < 0 || (size_t)bytes + strlen(path) + 2 > PATH_MAX) return NULL;
        buffer[bytes] = '/';
        strcpy(buffer + bytes + 1, path);
        path = buffer;
    }
    return below(path) && !passing(path) ? path : NULL;
}

static struct file *watched(int fd) {
    char link[64], path[PATH_MAX];
    struct stat about;
    struct file *file;
    if (control == NULL || fd < 0 || fd >= FILES_MAX) return NULL;
    file = &files[fd];
    if (!file->known) { /* inherited, or a duplicate */
        int kept = errno;
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t bytes = readlink(link, path, sizeof path - 1);
        path[bytes > 0 ? bytes : 0] = 0;
        file->watched = below(path) && !passing(path) && fstat(fd, &about) == 0;
        file->ino = file->watched ? about.st_ino : 0;
        file->every_write = file->watched && (fcntl(fd, F_GETFL) & O_DSYNC) != 0;
        file->known = 1;
        errno = kept;
    }
    return file->watched ? file : NULL;
}

static void forget(int fd) {
    if (fd >= 0 && fd < FILES_MAX) files[fd].known = 0;
}

/* --- opening --- */

static int opened(int folder_fd, const char *name, int flags, mode_t mode) {
    char buffer[PATH_MAX];
    const char *path = (flags & (O_CREAT | O_TRUNC)) ? watched_path(folder_fd, name, buffer) : NULL;
    struct stat about;
    if (path == NULL) {
        int fd = REAL(openat)(folder_fd, name, flags, mode);
        forget(fd);
        return fd;
    }
    enter();
    int there = stat(path, &about) == 0, fd = -1;
    uint64_t number = 0;
    if (!there && control->full) {
        errno = ENOSPC;
    } else {
        if (!there && (flags & O_CREAT)) number = effect();
        fd = REAL(openat)(folder_fd, name, flags, mode);
    }
    if (fd >= 0) {
        forget(fd);
        if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) {
            if (!there) record(OP_CREATE, about.st_ino, about.st_mode & 07777, path, NULL, NULL, 0);
            if (there && (flags & O_TRUNC)) record(OP_TRUNCATE, about.st_ino, 0, NULL, NULL, NULL, 0);
        }
    }
    if (number) effected(number);
    leave();
    return fd;
}

#define MODE_OF(flags)                     \
    mode_t mode = 0;                       \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list more;                      \
        va_start(more, flags);             \
        mode = va_arg(more, mode_t);       \
        va_end(more);                      \
    }
int open(const char *path, int flags, ...) {
    MODE_OF(flags)
    return opened(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    MODE_OF(flags)
    return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}
int openat(int folder_fd, const char *path, int flags, ...) {
    MODE_OF(flags)
    return opened(folder_fd, path, flags, mode);
}
int openat64(int folder_fd, const char *path, int flags, ...) {
    MODE_OF(flags)
    return opened(folder_fd, path, flags | O_LARGEFILE, mode);
}
int close(int fd) {
    forget(fd);
    return REAL(close)(fd);
}
int dup2(int from, int to) {
    forget(to);
    return REAL(dup2)(from, to);
}
int dup3(int from, int to, int flags) {
    forget(to);
    return REAL(dup3)(from, to, flags);
}

/* --- content --- */

static int refuses(int fd, uint64_t end) {
    struct stat about;
    if (!control->full || fstat(fd, &about) != 0 || end <= (uint64_t)about.st_size) return 0;
    errno = ENOSPC;
    return 1;
}

/* At ``offset``, or where the file stands if it is negative. */
static ssize_t written(int fd, struct file *file, const void *data, size_t bytes, off64_t offset) {
    ssize_t done = -1;
    enter();
    off64_t at = offset;
    if (at < 0) at = (fcntl(fd, F_GETFL) & O_APPEND) ? lseek64(fd, 0, SEEK_END) : lseek64(fd, 0, SEEK_CUR);
    if (!refuses(fd, at + bytes)) {
        uint64_t number = file->every_write ? effect() : 0;
        done = offset < 0 ? REAL(write)(fd, data, bytes) : REAL(pwrite64)(fd, data, bytes, offset);
        if (done > 0) record(OP_WRITE, file->ino, at, NULL, NULL, data, done);
        if (number) {
            record(OP_SYNC, file->ino, 0, NULL, NULL, NULL, 0);
            effected(number);
        }
    }
    leave();
    return done;
}

ssize_t write(int fd, const void *data, size_t bytes) {
    struct file *file = watched(fd);
    return file ? written(fd, file, data, bytes, -1) : REAL(write)(fd, data, bytes);
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset) {
    struct file *file = watched(fd);
    return file ? written(fd, file, data, bytes, offset) : REAL(pwrite)(fd, data, bytes, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset) {
    struct file *file = watched(fd);
    return file ? written(fd, file, data, bytes, offset) : REAL(pwrite64)(fd, data, bytes, offset);
}
static ssize_t gathered(int fd, struct file *file, const struct iovec *parts, int count, off64_t offset) {
    ssize_t total = 0;
    for (int each = 0; each < count; each++) {
        ssize_t done = written(fd, file, parts[each].iov_base, parts[each].iov_len, offset < 0 ? -1 : offset + total);
        if (done < 0) return total ? total : -1;
        total += done;
        if ((size_t)done < parts[each].iov_len) break;
    }
    return total;
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    struct file *file = watched(fd);
    return file ? gathered(fd, file, parts, count, -1) : REAL(writev)(fd, parts, count);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) {
    struct file *file = watched(fd);
    return file ? gathered(fd, file, parts, count, offset) : REAL(pwritev64)(fd, parts, count, offset);
}
int ftruncate64(int fd, off64_t bytes) {
    struct file *file = watched(fd);
    if (!file) return REAL(ftruncate64)(fd, bytes);
    int done = -1;
    enter();
    if (!refuses(fd, bytes)) {
        done = REAL(ftruncate64)(fd, bytes);
        if (done == 0) record(OP_TRUNCATE, file->ino, bytes, NULL, NULL, NULL, 0);
    }
    leave();
    return done;
}
int ftruncate(int fd, off_t bytes) { return ftruncate64(fd, bytes); }
int posix_fallocate64(int fd, off64_t offset, off64_t bytes) {
    struct stat about;
    if (!watched(fd)) return REAL(posix_fallocate64)(fd, offset, bytes);
    if (fstat(fd, &about) != 0) return errno;
    return about.st_size >= offset + bytes || ftruncate64(fd, offset + bytes) == 0 ? 0 : errno;
}
int posix_fallocate(int fd, off_t offset, off_t bytes) { return posix_fallocate64(fd, offset, bytes); }
/* Copies inside the kernel have no bytes to write down; callers fall back to read and write. */
ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t bytes, unsigned flags) {
    if (!watched(to)) return REAL(copy_file_range)(from, from_at, to, to_at, bytes, flags);
    errno = EXDEV;
    return -1;
}
ssize_t sendfile64(int to, int from, off64_t *offset, size_t bytes) {
    if (!watched(to)) return REAL(sendfile64)(to, from, offset, bytes);
    errno = EINVAL;
    return -1;
}
ssize_t sendfile(int to, int from, off_t *offset, size_t bytes) { return sendfile64(to, from, offset, bytes); }

static int synced(struct file *file) {
    if (control->sync_us) usleep(control->sync_us);
    enter();
    uint64_t number = effect();
    if (!control->lies) record(OP_SYNC, file->ino, 0, NULL, NULL, NULL, 0);
    effected(number);
    leave();
    return 0;
}
int fsync(int fd) {
    struct file *file = watched(fd);
    return file ? synced(file) : REAL(fsync)(fd);
}
int fdatasync(int fd) {
    struct file *file = watched(fd);
    return file ? synced(file) : REAL(fdatasync)(fd);
}

/* --- the wall clock --- */

static int64_t ahead_s(void) { return control ? __atomic_load_n(&control->ahead_s, __ATOMIC_RELAXED) : 0; }
int clock_gettime(clockid_t clock, struct timespec *now) {
    int done = REAL(clock_gettime)(clock, now);
    if (done == 0 && clock == CLOCK_REALTIME) now->tv_sec += ahead_s();
    return done;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int done = REAL(gettimeofday)(now, zone);
    if (done == 0) now->tv_sec += ahead_s();
    return done;
}
time_t time(time_t *kept) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (kept) *kept = now.tv_sec;
    return now.tv_sec;
}

/* --- names --- */

/* A call that fails (an unlink of what is not there) counts as well: whether it will is not known before it. */
#define NAMED(op, path, target, grows, call)                                     \
    int done = -1;                                                               \
    enter();                                                                     \
    if ((grows) && control->full) {                                              \
        errno = ENOSPC;                                                          \
    } else {                                                                     \
        struct stat about;                                                       \
        uint64_t number = effect();                                              \
        done = (call);                                                           \
        if (done == 0) {                                                         \
            int there = lstat((target) ? (target) : (path), &about);             \
            record(op, there == 0 ? about.st_ino : 0, 0, path, target, NULL, 0); \
        }                                                                        \
        effected(number);                                                        \
    }                                                                            \
    leave();                                                                     \
    return done;

int renameat(int from_fd, const char *from, int to_fd, const char *to) {
    char buffer[PATH_MAX], second[PATH_MAX];
    const char *path = watched_path(from_fd, from, buffer), *target = watched_path(to_fd, to, second);
    if (path == NULL && target == NULL) return REAL(renameat)(from_fd, from, to_fd, to);
    if (path == NULL || target == NULL) abort(); /* moved in or out: this record could not tell what became of it */
    NAMED(OP_RENAME, path, target, 0, REAL(renameat)(from_fd, from, to_fd, to))
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }
int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags) {
    char buffer[PATH_MAX], second[PATH_MAX];
    const char *path = watched_path(from_fd, from, buffer), *target = watched_path(to_fd, to, second);
    if (path == NULL || target == NULL) return REAL(linkat)(from_fd, from, to_fd, to, flags);
    NAMED(OP_LINK, path, target, 1, REAL(linkat)(from_fd, from, to_fd, to, flags))
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
int unlinkat(int folder_fd, const char *name, int flags) {
    char buffer[PATH_MAX];
    const char *path = watched_path(folder_fd, name, buffer);
    if (path == NULL) return REAL(unlinkat)(folder_fd, name, flags);
    NAMED((flags & AT_REMOVEDIR) ? OP_RMDIR : OP_UNLINK, path, NULL, 0, REAL(unlinkat)(folder_fd, name, flags))
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }
int mkdirat(int folder_fd, const char *name, mode_t mode) {
    char buffer[PATH_MAX];
    const char *path = watched_path(folder_fd, name, buffer);
    if (path == NULL) return REAL(mkdirat)(folder_fd, name, mode);
    NAMED(OP_MKDIR, path, NULL, 1, REAL(mkdirat)(folder_fd, name, mode))
}
int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }
